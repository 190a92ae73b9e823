"""`asp train`: generation and training, for real."""

import math
import os
from typing import Annotated, Any, Literal

import typer

from asp_cli.options import Force, OutputDirectory, PromptColumn, Quiet, Seed, within_64_bits
from asp_cli.refusals import refuse_given, refuse_shared_stdio, refuse_stdio_directory


def _file(help_: str) -> Any:
    return typer.Option(metavar="FILE", show_default=False, help=help_)


def _count(help_: str, least: int = 1) -> Any:
    return typer.Option(
        min=least, callback=within_64_bits, metavar="N", show_default=False, help=help_
    )


def _number(help_: str, is_positive: bool = True) -> Any:
    def checked(value: float | None) -> float | None:
        if value is None:
            return value
        if not math.isfinite(value) or value < 0 or (is_positive and value == 0):
            raise typer.BadParameter(f"must be a number {'above' if is_positive else 'from'} 0")
        return value

    return typer.Option(callback=checked, metavar="X", show_default=False, help=help_)


def command(
    output: OutputDirectory,
    schedule: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="Schedule or groups table; `-` is standard input. The modes async and hybrid can "
            "do without one: then prompts are shuffled and cut alike.",
        ),
    ] = None,
    engine: Annotated[
        Literal["transformers", "vllm", "timed"],
        typer.Option(
            help="What generates; vllm has to be installed. timed: no model; takes the time that "
            "--cluster says, scaled."
        ),
    ] = "transformers",
    mode: Annotated[
        Literal["asp", "async", "hybrid"] | None,
        typer.Option(
            show_default=False,
            help="asp: in dispatch order, under the lag bound. async: what is complete first. "
            "hybrid: generate, then train, lag 0. Default: as --cluster says, else asp.",
        ),
    ] = None,
    prompts: Annotated[
        str | None, _file("Prompts, Parquet or JSONL, from which the schedule was made.")
    ] = None,
    prompt_column: PromptColumn = "prompt",
    model: Annotated[
        str | None,
        typer.Option(metavar="DIR", show_default=False, help="Model to train, a directory."),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False,
            help="Reward: gsm8k, reasoning-gym, or module:function, given the responses to "
            "a prompt and the prompt's row.",
        ),
    ] = None,
    cluster: Annotated[str | None, _file("Of --engine timed: as of `asp simulate`.")] = None,
    lengths: Annotated[
        str | None,
        _file("Lengths table: of --engine timed, or, for --refresh-each-epoch, of the schedule."),
    ] = None,
    profile: Annotated[
        str | None, _file("Of --engine timed: recorded responses, for true lengths.")
    ] = None,
    time_scale: Annotated[
        float | None, _number("Of --engine timed: real seconds a second of --cluster. Default: 1.")
    ] = None,
    units: Annotated[int | None, _count("Generation Units, processes. Default: 1.")] = None,
    actors: Annotated[int | None, _count("Engines in each Generation Unit. Default: 1.")] = None,
    slots: Annotated[
        int | None, _count("Responses that an engine decodes at once. Default: 32.")
    ] = None,
    batching: Annotated[
        Literal["static", "continuous"] | None,
        typer.Option(
            show_default=False,
            help="static (default): an engine generates one minibatch at a time. continuous "
            "(default of vllm): a slot is refilled when its response ends.",
        ),
    ] = None,
    max_response_tokens: Annotated[
        int | None,
        _count("The cap of a response. Default: that of the schedule's lengths, else 1024."),
    ] = None,
    temperature: Annotated[float | None, _number("Of sampling. Default: 1.")] = None,
    loss: Annotated[
        Literal["grpo", "dr_grpo", "dapo"] | None,
        typer.Option(show_default=False, help="Default: grpo."),
    ] = None,
    lag_correction: Annotated[
        Literal["truncated", "decoupled", "none"] | None,
        typer.Option(
            show_default=False,
            help="Importance weight of a token drawn by older weights: cut at 2 (truncated, "
            "default); 0 above 2 (decoupled); none.",
        ),
    ] = None,
    zero_advantage: Annotated[
        Literal["keep", "skip"] | None,
        typer.Option(
            show_default=False,
            help="Sample groups of equal rewards: in the loss, where they count in what it is "
            "divided by and in the KL term (keep, default), or left out of it (skip).",
        ),
    ] = None,
    learning_rate: Annotated[float | None, _number("Of AdamW. Default: 1e-6.")] = None,
    kl: Annotated[
        float | None,
        _number("Weight of the KL term to the model as given. Default: 0, none.", False),
    ] = None,
    tokens_per_micro_batch: Annotated[
        int | None,
        _count(
            "Of prompts, responses and padding, trained on in one pass: a matter of memory, not of "
            "the result. Default: 8192."
        ),
    ] = None,
    max_lag: Annotated[
        int | None,
        _count("Lag bound, training steps. Default: as --cluster says, else 4.", least=0),
    ] = None,
    pacing: Annotated[
        Literal["setpoint", "watermark"] | None,
        typer.Option(
            show_default=False,
            help="What holds dispatch: samples on their way, or the queue alone. Default: as the "
            "cluster file says, else setpoint.",
        ),
    ] = None,
    refresh: Annotated[
        Literal["unload", "finish", "rolling"] | None,
        typer.Option(
            show_default=False,
            help="New weights: put work down, finish it first, or one actor after the other. "
            "Default: as --cluster says, else unload.",
        ),
    ] = None,
    carry: Annotated[
        Literal["tokens", "restart"],
        typer.Option(
            help="A response cut at its budget goes on from its tokens; or its sample group begins "
            "again, which under-represents long responses."
        ),
    ] = "tokens",
    refresh_each_epoch: Annotated[
        bool,
        typer.Option(
            "--refresh-each-epoch",
            help="Refresh --lengths by the run's own responses before each epoch, and cut and deal "
            "the epoch anew, in the steps that it has.",
        ),
    ] = False,
    samples_per_prompt: Annotated[
        int | None, _count("Without SCHEDULE: responses a prompt. Default: 8.")
    ] = None,
    batch_size: Annotated[
        int | None, _count("Without SCHEDULE: prompts in a minibatch. Default: 32.")
    ] = None,
    group_size: Annotated[
        int | None, _count("Without SCHEDULE: minibatches in a training step. Default: 8.")
    ] = None,
    epochs: Annotated[
        int | None, _count("Without SCHEDULE: passes over the prompts. Default: 1.")
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Training steps between checkpoints.")
    ] = 10,
    response_timeout: Annotated[
        float | None,
        _number("Seconds after which a minibatch's responses are given up. Default: 3600."),
    ] = None,
    reward_timeout: Annotated[
        float | None, _number("Seconds after which a reward is given up. Default: 60.")
    ] = None,
    reward_processes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes that score responses.")
    ] = 1,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", show_default=False,
            help="Ray cluster to run on. Default: one of its own on this machine.",
        ),
    ] = None,
    unit_cpus: Annotated[
        float | None, _number("CPUs that Ray reserves for a Generation Unit. Default: 0.", False)
    ] = None,
    unit_gpus: Annotated[
        float | None, _number("GPUs that Ray reserves for a Generation Unit. Default: 0.", False)
    ] = None,
    trainer_gpus: Annotated[
        float | None, _number("GPUs that Ray reserves for training. Default: 0.", False)
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Train on a schedule: generation and training side by side, with a bounded policy lag.

    Writes the trained weights, the metrics of each step, the trace and the responses to a
    directory. Whatever is killed on the way, the same command goes on from the last checkpoint, and
    each prompt is trained on once an epoch. Needs the extra `train`.

    Example: asp train schedule.parquet --prompts p.parquet --model DIR --reward m:f -o run

    Example: asp train schedule.parquet --engine timed --cluster c.toml --lengths l.parquet -o run
    """
    refuse_stdio_directory(output, "--output")
    refuse_shared_stdio(schedule or "", prompts or "", cluster or "", lengths or "", profile or "")
    is_timed = engine == "timed"
    of_model = {
        "model": model, "prompts": prompts, "reward": reward, "units": units, "actors": actors,
        "slots": slots, "batching": batching, "max_response_tokens": max_response_tokens,
        "temperature": temperature, "loss": loss, "lag_correction": lag_correction,
        "zero_advantage": zero_advantage, "learning_rate": learning_rate, "kl_coefficient": kl,
        "tokens_per_micro_batch": tokens_per_micro_batch,
    }  # fmt: skip
    of_timed = {"cluster": cluster, "profile": profile, "scale": time_scale}
    if refresh_each_epoch and lengths is None:
        raise typer.BadParameter("--lengths is missing; --refresh-each-epoch needs it")
    if not (is_timed or refresh_each_epoch or lengths is None):
        raise typer.BadParameter("--lengths: of use here with --refresh-each-epoch alone")
    (of_timed if is_timed else of_model)["lengths"] = lengths
    of_cut = {
        "samples_per_prompt": samples_per_prompt, "batch_size": batch_size,
        "group_size": group_size, "epochs": epochs,
    }  # fmt: skip
    needed, others = (of_timed, of_model) if is_timed else (of_model, of_timed)
    refuse_given(_by_flag(others), f"%s: --engine {engine} takes none; leave it out")
    _need(needed, ("cluster", "lengths") if is_timed else ("model", "prompts", "reward"), engine)
    if schedule is not None:
        refuse_given(_by_flag(of_cut), "%s: a schedule says so itself; leave it out")
    # Read when ray is imported: it would tell of lost processes on standard output.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        from rollout.trainer import stage
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        from stages.tables.errors import AspError

        raise AspError("asp train needs Ray: pip install 'asp-schedule[train]'") from None
    from rollout.trainer.config import (
        ControlConfig,
        CutConfig,
        ModelConfig,
        RunConfig,
        TimedConfig,
    )

    if engine == "timed":
        source: ModelConfig | TimedConfig = TimedConfig(**_given(of_timed))
    else:
        source = ModelConfig(**_given(of_model), engine=engine, prompt_column=prompt_column)
    run_config = RunConfig(
        checkpoint_every=checkpoint_every,
        num_judges=reward_processes,
        address=ray,
        **_given(
            {
                "response_timeout_s": response_timeout, "reward_timeout_s": reward_timeout,
                "unit_cpus": unit_cpus, "unit_gpus": unit_gpus, "trainer_gpus": trainer_gpus,
            }
        ),
    )  # fmt: skip
    stage.run(
        schedule, output, source,
        ControlConfig(mode, max_lag, refresh, pacing, carry, refresh_each_epoch),
        CutConfig(**_given(of_cut)), run_config, seed, force, is_shown=not quiet,
    )  # fmt: skip


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


FLAGS = {"scale": "--time-scale", "kl_coefficient": "--kl"}


def _flag(name: str) -> str:
    return FLAGS.get(name, "--" + name.replace("_", "-"))


def _by_flag(values: dict[str, Any]) -> dict[str, Any]:
    return {_flag(name): value for name, value in values.items()}


def _need(values: dict[str, Any], names: tuple[str, ...], engine: str) -> None:
    for name in names:
        if values[name] is None:
            raise typer.BadParameter(f"{_flag(name)} is missing; --engine {engine} needs it")
