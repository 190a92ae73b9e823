"""Which minibatches make a batch group, and in which order do the groups come?

In: minibatches. Out: groups. Minibatches are rearranged so that every group has about the same
predicted load, long and short together (ASP, arXiv 2611.08864, offline pass, step 3; the
algorithm and the other policies are ours).

    asp balance minibatches.parquet --group-size 8 -o groups.parquet
"""

from dataclasses import asdict

import polars as pl

from stages.balance.config import BalanceConfig
from stages.balance.epochs import one_epoch
from stages.balance.report import report
from stages.balance.split import Cutter
from stages.balance.strata import check_strata
from stages.balance.tails import place_tails, recorded_window
from stages.costs.model import CostModel, recorded_cost_model
from stages.tables.derived import complete_minibatches
from stages.tables.errors import AspError, told_when_slow
from stages.tables.io import check_output, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import IS_HEAD, Groups, Minibatches

__all__ = ["BalanceConfig", "balance", "run"]


def balance(
    minibatches: pl.DataFrame,
    config: BalanceConfig,
    cost_model: CostModel | None = None,
    tail_window: int = 1,
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Deal the minibatches into groups and put everything in dispatch order.

    Args:
        minibatches: A minibatches table.
        config: What to do; it is about the heads.
        cost_model: Prices the parts of a minibatch that must be cut for an exact train batch.
        tail_window: Batch groups whose cut responses continue together in tails.

    Returns:
        The groups table in dispatch order, and what is to be said of it, of the worst epoch each.
    """
    config = config.for_table(minibatches)
    heads, tails = minibatches.filter(IS_HEAD), minibatches.filter(~IS_HEAD)
    cutter = Cutter.of(heads, cost_model or CostModel())
    epochs = [one_epoch(heads, config, cutter, epoch) for epoch in range(config.epochs)]
    measured = [results for _, results in epochs]
    worst = {name: max(results[name] for results in measured) for name in measured[0]}
    together = [place_tails(groups, tails, tail_window) for groups, _ in epochs]
    return pl.concat(together), worst | {"num_epochs": config.epochs}


def run(source: str, output: str, config: BalanceConfig, force: bool = False) -> None:
    """Read minibatches, deal and order them, write groups, say what came out."""
    check_output(output, force)
    table = read_table(source, Minibatches, complete_minibatches)
    if table.frame.filter(IS_HEAD).is_empty():
        raise AspError(f"{table.name}: holds no head minibatch; give the output of partition")
    if config.stratify is not None:
        check_strata(table.frame, config.stratify, table.name)
    config = config.for_table(table.frame)
    with told_when_slow("dealing %d minibatches into groups", len(table.frame)):
        groups, results = balance(
            table.frame,
            config,
            recorded_cost_model(table.provenance),
            recorded_window(table.provenance),
        )
    report(table.frame, results, config)
    provenance = Provenance(
        stage="balance",
        schema="groups/1",
        config=asdict(config),
        seed=config.seed,
        results=dict(results),
        inputs=(Input("minibatches", table.sha256, table.provenance),),
    )
    write_table(groups, Groups, output, provenance, force)
