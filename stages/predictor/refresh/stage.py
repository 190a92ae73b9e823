"""How long are the responses now, given what training observed?

In: lengths, and profiles of the policy in training. Out: lengths, a row a prompt as before.
Lengths drift as the policy learns (`drift.py`), the spread around predictions changes with them
(`variance.py`), and a prompt's own responses outweigh what was predicted of it (`posterior.py`);
prompts never observed get the drift alone (Seer, arXiv 2511.14617, and RhymeRL, arXiv 2508.18588,
take a prompt's earlier responses for its length; the blend with a prediction is ours). The table
written is the prior of the next refresh.

    asp refresh lengths.parquet --observed step_40.parquet -o refreshed.parquet
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np
import polars as pl

from stages.lengths import table as lengths_table
from stages.predictor.refresh.drift import ENOUGH_PROMPTS
from stages.predictor.refresh.evidence import Tally, join
from stages.predictor.refresh.update import RefreshConfig, Refreshed, refresh
from stages.tables.derived import complete_profile
from stages.tables.errors import AspError, first_few, log
from stages.tables.io import Table, check_output, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Lengths, Profile

PARTIAL_SHARE = 0.05  # of groups not whole, above which they are worth a warning


def run(
    source: str, profiles: Sequence[str], output: str, config: RefreshConfig, force: bool = False
) -> None:
    """Read lengths and profiles, blend, write lengths, say what moved."""
    check_output(output, force)
    table = read_table(source, Lengths, lengths_table.complete)
    _check_hashes(table)
    observations = [read_table(path, Profile, complete_profile) for path in profiles]
    _check_new(table, observations)
    rows = pl.concat([item.frame.select(Profile.column_names()) for item in observations])
    rows = _choose_model(rows, config.profile_model, observations[0].name)
    observed, tally = join(table.frame, rows, table.name, config.group_samples)
    done = refresh(_with_domains(table.frame, rows), observed, config, _version_of(table))
    for line in _words(done, tally, len(np.unique(observed.prompt_s))):
        log.info(line)
    for concern in _concerns(done, tally):
        log.warning(concern)
    provenance = Provenance(
        stage="refresh",
        schema="lengths/1",
        config=asdict(config),
        seed=config.seed,
        results=_results(done, tally),
        inputs=(
            Input("lengths", table.sha256, table.provenance),
            *(Input("observed", item.sha256, item.provenance) for item in observations),
        ),
    )
    write_table(done.lengths, Lengths, output, provenance, force)


def _check_hashes(table: Table) -> None:
    missing = table.frame["prompt_hash"].is_null()
    if missing.any():
        raise AspError(
            f"{table.name}: column 'prompt_hash' is empty in {missing.sum()} of "
            f"{len(table.frame)} rows, first in row {first_few(missing.arg_true())} (from 0): "
            "observed responses find their prompt by it; `asp predict` writes it"
        )


def _check_new(table: Table, observations: Sequence[Table]) -> None:
    """Refuse what was counted before; warn of what the predictor learned from."""
    counted = set(_refreshed_with(table.provenance))
    trained = table.provenance.ancestor("train-predictor") if table.provenance else None
    learned = {item.sha256 for item in trained.inputs} if trained else set()
    for item in observations:
        if item.sha256 in counted:
            raise AspError(
                f"{item.name}: these observations are counted already, in {table.name} or by "
                "another --observed; give each profile once"
            )
        counted.add(item.sha256)
        if item.sha256 in learned:
            log.warning(
                "%s is the profile that the predictor was trained on, whose lengths it knows: "
                "drift and spread come out too small", item.name,
            )  # fmt: skip


def _refreshed_with(provenance: Provenance | None) -> Iterator[str]:
    """Hashes of the observations that went into a table, in all its refreshes."""
    if provenance is None:
        return
    for item in provenance.inputs:
        if provenance.stage == "refresh" and item.role == "observed":
            yield item.sha256
        yield from _refreshed_with(item.provenance)


def _with_domains(lengths: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The table with the domains that it lacks and the profiles know."""
    known = rows.drop_nulls("domain").unique("prompt_hash", keep="first", maintain_order=True)
    found = lengths.select("prompt_hash").join(
        known.select("prompt_hash", "domain"), on="prompt_hash", how="left", maintain_order="left"
    )
    return lengths.with_columns(pl.col("domain").fill_null(found["domain"]))


def _choose_model(rows: pl.DataFrame, wanted: str | None, name: str) -> pl.DataFrame:
    held = rows["model"].unique().sort()
    what = f"{name}: the observations are of {len(held)} models ({first_few(held, 6)})"
    if wanted is None and len(held) > 1:
        raise AspError(f"{what}, whose lengths differ; name one with --profile-model")
    if wanted is not None and wanted not in held:
        raise AspError(f"{what}, none of them {wanted!r} (--profile-model)")
    return rows if wanted is None else rows.filter(pl.col("model") == wanted)


def _version_of(table: Table) -> int:
    """Policy version at which a table holds: of its last refresh, or as trained; 0 otherwise."""
    refreshed = table.provenance.ancestor("refresh") if table.provenance else None
    trained = table.provenance.ancestor("train-predictor") if table.provenance else None
    known = (
        refreshed.results.get("policy_version") if refreshed
        else trained.config.get("policy_version") if trained
        else None
    )  # fmt: skip
    return known if isinstance(known, int) and known >= 0 else 0


def _words(done: Refreshed, tally: Tally, num_blended: int) -> Iterator[str]:
    drift = done.drift
    yield tally.line()
    low, high = np.exp(drift.offset_interval)
    yield (
        f"drift at policy version {done.version}: lengths are {np.exp(drift.offset):.2f} times "
        f"those predicted (90% interval {low:.2f} to {high:.2f}), at the middle, "
        f"{np.exp(drift.centre):.0f} tokens"
    )
    if drift.is_full:
        low, high = drift.scale_interval
        yield (
            f"differences between prompts, in logs, are {drift.scale:.2f} times those predicted "
            f"({low:.2f} to {high:.2f}); predictions err {np.sqrt(done.factors.shared):.2f} times "
            f"as far, samples differ {np.sqrt(done.factors.chance):.2f} times as far as they said"
        )
    counts = done.lengths["source"].cast(pl.String).value_counts().sort("source").rows()
    yield (
        f"{num_blended} of {len(done.lengths)} prompts blended with their own responses; now "
        + ", ".join(f"{count} {source}" for source, count in counts)
    )
    if done.verdict and not done.verdict.should_refit:
        yield done.verdict.line()


def _concerns(done: Refreshed, tally: Tally) -> Iterator[str]:
    if tally.num_partial_groups > PARTIAL_SHARE * tally.num_groups:
        yield (
            f"{tally.num_partial_groups} of {tally.num_groups} sample groups are not whole and "
            "left out: what they lack is long as a rule, so the drift may come out low; refresh "
            "again when the step is done"
        )
    if not done.drift.is_full:
        yield (
            f"{done.drift.num_prompts} observed prompts are fewer than {ENOUGH_PROMPTS}: drift is "
            "an offset alone, drawn towards none, and spreads stay as they were"
        )
    if not done.is_in_order:
        yield (
            f"some observations are of policy versions before that of the table, {done.version}: "
            "they weigh too much; refresh in the order of training"
        )
    if not done.is_split_known:
        yield (
            "how much of the spread is chance between samples is neither in the lengths table "
            f"nor to be learned, as fewer than {ENOUGH_PROMPTS} prompts have two responses: "
            "prompts get the drift alone; observe two responses a prompt or more"
        )
    if done.verdict and done.verdict.should_refit:
        yield done.verdict.line()


def _results(done: Refreshed, tally: Tally) -> dict[str, object]:
    drift = done.drift
    return {
        "policy_version": done.version,
        "drift": {
            "centre": drift.centre,
            "offset": drift.offset,
            "offset_interval": list(drift.offset_interval),
            "scale": drift.scale,
            "scale_interval": list(drift.scale_interval),
            "num_prompts": drift.num_prompts,
        },
        "shared_variance_factor": done.factors.shared,
        "chance_variance_factor": done.factors.chance,
        "responses": asdict(tally),
        "order": asdict(done.verdict) | {"should_refit": done.verdict.should_refit}
        if done.verdict
        else None,
    }
