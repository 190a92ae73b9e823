"""`asp plan`: which split of the devices and which schedule suit a cluster."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from asp_cli.options import Force, Quiet, RecordedProfile, SamplesPerPrompt, Seed
from asp_cli.refusals import refuse_shared_stdio

POLICIES = ("balanced", "like", "isolate")


def _tried(metavar: str, words: str) -> Any:
    """A flag that takes values with commas between."""
    return typer.Option(metavar=metavar, show_default=False, help=words)


def command(
    lengths: Annotated[str, typer.Argument(help="Lengths table; `-` is standard input.")],
    cluster: Annotated[
        str,
        typer.Option(
            help="TOML file of the cluster, as for simulate; its max_lag is the largest lag bound "
            "that is tried."
        ),
    ],
    profile: RecordedProfile = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="Table of the settings tried; `-` is standard output. Default: none is written.",
        ),
    ] = None,
    samples_per_prompt: SamplesPerPrompt = None,
    training_devices: Annotated[
        str | None,
        _tried(
            "K,K,...", "Devices that train, to try; the others generate. Default: up to 9 splits."
        ),
    ] = None,
    batch_size: Annotated[
        str | None, _tried("B,B,...", "Base sizes to try. Default: 8,16,32,64.")
    ] = None,
    slack: Annotated[str | None, _tried("S,S,...", "Slacks to try. Default: 0,0.25,0.5.")] = None,
    prompts_per_group: Annotated[
        str | None,
        _tried(
            "N,N,...",
            "Prompts of a training step, exactly, to try. Default: 256, since more or fewer change "
            "the training too.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        _tried("P,P,...", "Group policies to try. Default: balanced,like,isolate."),
    ] = None,
    max_rounds: Annotated[
        str | None,
        _tried(
            "R,R,...",
            "Continuations of a response at most, to try; 0 is no token budgets. Give 0 for "
            "trainers that drop partial responses. Default: 0,1,2,6.",
        ),
    ] = None,
    max_lag: Annotated[
        str | None,
        _tried(
            "H,H,...",
            "Lag bounds to try. Default: 0, powers of two, and the cluster file's.",
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of time that the knee may take beyond the fastest."),
    ] = 0.03,
    seeds: Annotated[
        int, typer.Option(min=2, max=1000, metavar="K", help="Draws of true lengths to judge by.")
    ] = 5,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Find the split of a cluster's devices, and the schedule, that make an iteration short.

    Simulates a hundred settings or so. Prints the plain one (the cluster file's split, the stages'
    defaults), what each lever gains alone, the fastest setting, and the knee: the cheapest that is
    about as fast, with a lower lag bound, fewer devices, no token budgets where these do not pay.
    Says what bounds it, and the commands that make it. Of several values given to a flag the first
    is the plain one.

    Example: asp plan lengths.parquet --cluster cluster.toml -o plan.parquet

    Example: asp plan lengths.parquet --cluster c.toml --profile observed.parquet --max-rounds 0
    """
    refuse_shared_stdio(lengths, cluster, profile or "")
    from rollout.planner.space import Wishes
    from rollout.planner.stage import PlanConfig, run

    wishes = Wishes(
        training_devices=_several("--training-devices", training_devices, _whole(1)),
        batch_sizes=_several("--batch-size", batch_size, _whole(1)),
        slacks=_several("--slack", slack, _share),
        prompts_per_group=_several("--prompts-per-group", prompts_per_group, _whole(1)),
        policies=_several("--policy", policy, _policy, f" among {', '.join(POLICIES)}"),
        max_rounds=_several("--max-rounds", max_rounds, _whole(0)),
        max_lags=_several("--max-lag", max_lag, _whole(0)),
    )
    config = PlanConfig(wishes, samples_per_prompt, tolerance, seeds, seed)
    text = run(lengths, profile, cluster, output, config, force)
    typer.echo(text, err=output == "-")


def _several(
    flag: str, listed: str | None, read: Callable[[str], Any], wanted: str = ""
) -> tuple[Any, ...]:
    """Values with commas between; none where the flag is not given."""
    if listed is None:
        return ()
    try:
        return tuple(dict.fromkeys(read(part.strip()) for part in listed.split(",")))
    except ValueError:
        what = f"{flag} {listed}: give values{wanted} with commas between"
        raise typer.BadParameter(what) from None


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not least <= number <= 10**6:
            raise ValueError
        return number

    return read


def _policy(text: str) -> str:
    if text not in POLICIES:
        raise ValueError
    return text


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError
    return number
