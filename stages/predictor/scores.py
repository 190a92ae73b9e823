"""How good are held-out predictions, and do they beat the length of the prompt?

Each score is against a stated label: one sample (the first), the mean, or the longest of a
prompt's samples. Lengths are in tokens as recorded, a response at its cap counting as the cap;
responses cut off from outside are left out of the labels.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row.
"""

from dataclasses import asdict, dataclass

import numpy as np
import polars as pl
from scipy.stats import kendalltau

from stages.lengths import table as lengths_table
from stages.predictor.backend import Floats, HeldOut
from stages.predictor.observations import Evidence
from stages.predictor.spread import coverage

LABELS = ("one", "mean", "longest")
LONGEST_SHARE = 0.2


@dataclass(frozen=True)
class Ranking:
    """How well an order of the prompts is that of a label; None where either is all ties."""

    tau: float | None  # Kendall's tau-b, -1 to 1
    recall: float | None  # share of the longest fifth that is among the first fifth, 0 to 1


@dataclass(frozen=True)
class Scores:
    """Held-out scores of a predictor, beside those of ordering by the length of the prompt."""

    num_prompts: int
    predictor: dict[str, Ranking]  # by label
    prompt_length: dict[str, Ranking]  # by label
    coverage_80: float  # share of responses within the central 80% interval
    coverage_90: float
    mean_bias: float  # sum of expected over sum of observed means, less 1
    longest_bias: float  # sum of expected over sum of observed longest, less 1

    @property
    def beats_prompt_length(self) -> bool:
        """Whether the predictor orders the means better than the prompts' lengths do."""
        return (self.predictor["mean"].tau or 0.0) > (self.prompt_length["mean"].tau or 0.0)

    def to_dict(self) -> dict[str, object]:
        """As stored."""
        return asdict(self) | {"beats_prompt_length": self.beats_prompt_length}

    def lines(self) -> list[str]:
        """A table to read: what was ordered, by what, against which label."""
        names = ("one sample", "mean", "longest")
        rows = [f"{f'held out: {self.num_prompts} prompts':40}" + "".join(map(_cell, names))]
        for measure, words in (("tau", "Kendall tau"), ("recall", "recall of longest fifth")):
            for side, by in ((self.predictor, "predictor"), (self.prompt_length, "prompt length")):
                values = [getattr(side[label], measure) for label in LABELS]
                rows.append(f"  {words + ', ' + by:38}" + "".join(map(_cell, values)))
        return [
            *rows,
            f"  its 80% interval covers {self.coverage_80:.1%} of responses, its 90% interval "
            f"{self.coverage_90:.1%} (calibrated on them)",
            f"  expected against observed: mean {self.mean_bias:+.1%}, "
            f"longest {self.longest_bias:+.1%}",
        ]


def _cell(value: str | float | None) -> str:
    text = "-" if value is None else value if isinstance(value, str) else f"{value:.3f}"
    return f"{text:>12}"


def heldout_table(evidence: Evidence, held_out: HeldOut) -> pl.DataFrame:
    """Prediction beside observation, a row a prompt with a response that was not aborted."""
    mu_p, sigma_p, sample_sigma_p = held_out.prediction
    samples = pl.DataFrame(
        {
            "row": evidence.observations.prompt_s,
            "tokens": evidence.tokens_s,
            "is_capped": evidence.observations.is_censored_s,
        }
    ).filter(~pl.Series(evidence.is_aborted_s))
    observed = samples.group_by("row", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("num_samples"),
        pl.sum("is_capped").cast(pl.Int64).alias("num_capped"),
        pl.mean("tokens").alias("observed_mean"),
        pl.max("tokens").alias("observed_longest"),
        pl.first("tokens").alias("observed_one"),
    )
    predicted = evidence.prompts.select("prompt_id", "prompt_hash", "cap").with_columns(
        fold=held_out.fold_p,
        mu=mu_p,
        sigma=sigma_p,
        sample_sigma=pl.Series(sample_sigma_p).fill_nan(None),
        row=np.arange(len(mu_p)),
    )
    table = observed.join(predicted, on="row", maintain_order="left").drop("row")
    completed = lengths_table.complete(table.with_columns(samples_per_prompt="num_samples"))
    return table.with_columns(completed.select("expected_tokens", "expected_longest"))


def score(table: pl.DataFrame, evidence: Evidence, held_out: HeldOut) -> Scores:
    """Score what `heldout_table` made."""
    observed = {label: table[f"observed_{label}"].cast(pl.Float64).to_numpy() for label in LABELS}
    by_mean, by_longest = (table[c].to_numpy() for c in ("expected_tokens", "expected_longest"))
    predicted = {"one": by_mean, "mean": by_mean, "longest": by_longest}
    size_p = _prompt_sizes(table, evidence.prompts)
    mu_p, sigma_p, _ = held_out.prediction
    prompt_s, weight_s = evidence.observations.prompt_s, evidence.observations.weight_s
    z_s = (evidence.observations.log_tokens_s - mu_p[prompt_s]) / sigma_p[prompt_s]

    def covered(level: float) -> float:
        return coverage(z_s, evidence.observations.is_censored_s, weight_s, level)

    return Scores(
        num_prompts=len(table),
        predictor={label: rank(predicted[label], observed[label]) for label in LABELS},
        prompt_length={label: rank(size_p, observed[label]) for label in LABELS},
        coverage_80=covered(0.8),
        coverage_90=covered(0.9),
        mean_bias=_bias(by_mean, observed["mean"]),
        longest_bias=_bias(by_longest, observed["longest"]),
    )


def _bias(predicted_p: Floats, observed_p: Floats) -> float:
    return float(predicted_p.sum() / max(observed_p.sum(), 1.0) - 1)


def rank(predicted_p: Floats, observed_p: Floats) -> Ranking:
    """Compare two orders; ties in the longest fifth go to the earlier prompt."""
    if len(observed_p) < 2 or np.ptp(observed_p) == 0 or np.ptp(predicted_p) == 0:
        return Ranking(None, None)
    size = max(1, round(LONGEST_SHARE * len(observed_p)))
    first, longest = (set(np.argsort(-v, kind="stable")[:size]) for v in (predicted_p, observed_p))
    return Ranking(
        float(kendalltau(predicted_p, observed_p).statistic), len(first & longest) / size
    )


def _prompt_sizes(table: pl.DataFrame, prompts: pl.DataFrame) -> Floats:
    """Tokens of each prompt, or characters where the profile does not know the tokens of all."""
    sizes = table.select("prompt_hash").join(prompts, on="prompt_hash", maintain_order="left")
    tokens = sizes["prompt_tokens"]
    known = sizes["prompt"].str.len_chars() if tokens.null_count() else tokens
    return known.cast(pl.Float64).to_numpy()
