"""The minibatches table under a ladder of budgets: heads that stop early, tails that go on."""

import numpy as np
import polars as pl

from stages.costs.model import CostModel
from stages.lengths import table as lengths_table
from stages.partition.budgets import (
    UNKNOWN_PREFILL_COST,
    Engine,
    Ladder,
    TailRound,
    plan_ladder,
)
from stages.partition.config import PartitionConfig
from stages.partition.minibatches import prompt_tokens
from stages.partition.programme import Floats, Ints
from stages.partition.unfinished import Unfinished, unfinished
from stages.tables.schemas import Minibatches
from stages.tables.utilization import utilization


def add_budgets(
    heads: pl.DataFrame, ordered: pl.DataFrame, ends_b: Ints, config: PartitionConfig
) -> tuple[pl.DataFrame, Ladder]:
    """Plan a ladder for the minibatches, and apply it where it is expected to save time.

    Heads then stop at the first budget, and the tails of each round follow them. A tail reserves a
    place: it holds no prompts, and its figures are what is expected there.

    Args:
        heads: The minibatches table without budgets.
        ordered: The lengths table in the order of the minibatches.
        ends_b: Where each minibatch ends in that order.
        config: Costs, batch size and what budgets may do.
    """
    num_samples = int(ordered["samples_per_prompt"][0])
    curves = unfinished(lengths_table.distribution(ordered), num_samples, ends_b)
    prompt_tokens_p = prompt_tokens(ordered)
    prompt_tokens_b = num_samples * np.add.reduceat(prompt_tokens_p, np.append(0, ends_b[:-1]))
    num_slots = config.batch_size * num_samples
    mean_prompt = float(prompt_tokens_p.mean())
    if config.kv_tokens is not None:  # a tail may hold responses as long as the longest cap
        most = int(config.kv_tokens / (mean_prompt + curves.t_q[-1]))
        num_slots = max(1, min(num_slots, most))
    engine = Engine(config.cost_model, num_slots, mean_prompt, _prefill_cost(config, num_slots))
    ladder = plan_ladder(curves, engine, prompt_tokens_b, config.budgets)
    if not ladder.rounds:
        return heads, ladder
    budget = ladder.rounds[0].carried_tokens
    tails = [
        _tails(heads, tail, number, ladder.num_windows)
        for number, tail in enumerate(ladder.rounds, start=1)
    ]
    stopped = _stop(heads, curves, budget, config.cost_model, prompt_tokens_b)
    together = pl.concat([stopped, *tails])
    return together.with_columns(minibatch_id=pl.int_range(pl.len(), dtype=pl.Int64)), ladder


def _prefill_cost(config: PartitionConfig, num_slots: int) -> float:
    """As it was given, else as the cost model knows it, else a cautious guess."""
    if config.budgets.prefill_cost is not None:
        return config.budgets.prefill_cost
    known = config.cost_model.prefill_cost(num_slots)
    return UNKNOWN_PREFILL_COST if known is None else known


def _stop(
    heads: pl.DataFrame,
    curves: Unfinished,
    budget: int,
    model: CostModel,
    prompt_tokens_b: Floats,
) -> pl.DataFrame:
    """What the heads do until the first budget; predicted_tokens stays that of whole responses."""
    point = int(np.searchsorted(curves.t_q, budget))
    samples_b = heads["num_samples"].to_numpy().astype(np.float64)
    tokens_b = curves.up_to(curves.responses_bq)[:, point]
    longest_b = curves.up_to(curves.any_bq)[:, point]
    square_b = curves.up_to(2 * curves.t_q * curves.any_bq)[:, point]
    return heads.with_columns(
        token_budget=pl.lit(budget, dtype=pl.Int64),
        predicted_longest=pl.Series(longest_b),
        predicted_seconds=pl.Series(
            model.minibatch_seconds(longest_b, samples_b, prompt_tokens_b, square_b)
        ),
        predicted_utilization=pl.Series(utilization(tokens_b, samples_b * longest_b)),
    )


def _tails(heads: pl.DataFrame, tail: TailRound, number: int, num_windows: int) -> pl.DataFrame:
    """The places of one round; whole responses and prompts are dealt out evenly."""
    num_places = num_windows * tail.num_minibatches
    num_samples = _deal(tail.num_responses, num_places)
    mean_samples = tail.num_responses / num_places
    useful = float(utilization(tail.tokens, mean_samples * tail.longest))
    filled = pl.DataFrame(
        {
            "kind": pl.Series(["tail"] * num_places, dtype=Minibatches.kind.dtype),
            "round": [number] * num_places,
            "num_prompts": _deal(min(tail.num_groups, tail.num_responses), num_places),
            "num_samples": num_samples,
            "predicted_tokens": [tail.tokens] * num_places,
            "predicted_longest": [tail.longest] * num_places,
            "predicted_seconds": [tail.seconds] * num_places,
            "predicted_utilization": [useful] * num_places,
            "token_budget": pl.Series([tail.token_budget] * num_places, dtype=pl.Int64),
        }
    )
    # Lists of the prompts, and of the user's own columns, are empty: a tail is filled in training.
    lists = {
        name: pl.Series([[]] * num_places, dtype=kind)
        for name, kind in heads.schema.items()
        if isinstance(kind, pl.List)
    }
    rows = filled.with_columns(minibatch_id=pl.lit(0, dtype=pl.Int64), **lists)
    columns = [*heads.columns, *(["token_budget"] if "token_budget" not in heads.columns else [])]
    return rows.select(columns).cast(heads.schema)


def _deal(total: float, num_places: int) -> list[int]:
    """A total in whole parts that differ by at most one, none of them 0."""
    ends = np.round(np.arange(1, num_places + 1) * total / num_places).astype(np.int64)
    return [int(part) for part in np.maximum(np.diff(ends, prepend=0), 1)]
