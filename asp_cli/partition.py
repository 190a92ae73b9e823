"""`asp partition`: cut prompts into minibatches of like length."""

from typing import Annotated, Literal

import typer

from asp_cli.options import Force, Output, Quiet, SamplesPerPrompt, Seed, finite, within_64_bits
from asp_cli.refusals import refuse_given, refuse_shared_stdio, refuse_useless


def command(
    lengths: Annotated[str, typer.Argument(help="Lengths table; `-` is standard input.")],
    output: Output,
    batch_size: Annotated[
        int,
        typer.Option(min=1, callback=within_64_bits, help="Base size of a minibatch, in prompts."),
    ] = 32,
    slack: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            show_default=False,
            help="Sizes float within batch size x (1 +- slack). Default: 0.25.",
        ),
    ] = None,
    samples_per_prompt: SamplesPerPrompt = None,
    objective: Annotated[
        Literal["expected-padding", "utilization", "padding", "seconds"] | None,
        typer.Option(
            show_default=False,
            help="What the cut makes best: slots held for the expected longest of all samples of a "
            "minibatch (the default); mean utilisation or padding with lengths taken as certain; "
            "expected seconds by the cost model. All but seconds hold the number of minibatches.",
        ),
    ] = None,
    by: Annotated[
        Literal["upper", "longest", "expected"] | None,
        typer.Option(
            show_default=False,
            help="Sort by a response's 98th percentile, the expected longest of n, or its expected "
            "length. Default: upper for expected-padding and seconds, else expected.",
        ),
    ] = None,
    cost_model: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="How seconds are predicted: JSON with step_seconds, sequence_seconds, "
            "prefill_seconds and kv_seconds, or a profile with timings, to which they are fitted. "
            "Default: 0.02, 0.00008, 0, 0, an assumption.",
        ),
    ] = None,
    kv_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            callback=within_64_bits,
            metavar="N",
            show_default=False,
            help="Tokens of prompts and responses that fit into the memory of an engine: no "
            "minibatch needs more with a chance above 2%. Needs prompt_tokens of every prompt. "
            "Default: no limit.",
        ),
    ] = None,
    max_lag: Annotated[
        int,
        typer.Option(
            min=0,
            callback=within_64_bits,
            metavar="H",
            help="Training steps that a sample group may complete after its own. Above 0, "
            "responses that outlast a token budget are cut, keep their tokens, and continue in "
            "tail minibatches, where that is expected to save time. For trainers that keep "
            "partial responses.",
        ),
    ] = 0,
    max_rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            show_default=False,
            help="Continuations of a response, at most. Default: 6.",
        ),
    ] = None,
    prefill_cost: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=finite,
            show_default=False,
            metavar="COST",
            help="Device time of prefilling one carried token again, relative to one decode step "
            "of one slot; 0 where the KV cache is kept. Default: the cost model's, else 0.1.",
        ),
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=False,
            help="Minibatches of a training step, in which the lag is counted. Default: 8.",
        ),
    ] = None,
    no_budget: Annotated[
        bool, typer.Option("--no-budget", help="No token budgets, whatever the lag bound.")
    ] = False,
    method: Annotated[
        Literal["exact", "fixed", "random"],
        typer.Option(help="exact, or a baseline: sorted with fixed sizes, or random."),
    ] = "exact",
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Cut prompts, sorted by predicted length, into minibatches of like length.

    The dynamic programme is exact; what it could not prove optimal is printed as a gap.

    Example: asp partition lengths.parquet --batch-size 32 -o minibatches.parquet
    """
    refuse_shared_stdio(lengths, cost_model or "")
    if method != "exact":
        refuse_useless({"--objective": objective, "--slack": slack}, f"--method {method}")
    if method == "random":
        refuse_useless({"--by": by}, "--method random")
    of_budgets = {
        "--max-rounds": max_rounds, "--prefill-cost": prefill_cost, "--group-size": group_size
    }  # fmt: skip
    if not max_lag:
        refuse_given(of_budgets, "%s is of use with --max-lag H above 0 alone; give both")
    from stages.partition.budgets import BudgetConfig
    from stages.partition.config import PartitionConfig
    from stages.partition.stage import run

    config = PartitionConfig(
        batch_size=batch_size,
        slack=PartitionConfig.slack if slack is None else slack,
        samples_per_prompt=samples_per_prompt,
        objective=objective or PartitionConfig.objective,
        by=by,
        method=method,
        seed=seed,
        kv_tokens=kv_tokens,
        budgets=BudgetConfig(
            max_lag=0 if no_budget else max_lag,
            max_rounds=max_rounds or BudgetConfig.max_rounds,
            prefill_cost=prefill_cost,
            group_size=group_size or BudgetConfig.group_size,
        ),
    )
    run(lengths, output, config, force, cost_model)
