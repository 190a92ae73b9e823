"""A plan told to a person: what was found, why, and the commands that make it."""

import json
import shlex
from dataclasses import asdict

from rollout.planner.choice import Choice, gain
from rollout.planner.setting import Setting
from rollout.planner.space import LEVERS
from rollout.planner.table import Summary, summary
from rollout.planner.trials import Task, Trials
from rollout.simulator.words import ratio_interval

BUSY = 0.1  # share of idle time below which a unit counts as busy
TITLE = (
    f"{'':20}{'actors':>7}{'train':>7}{'batch':>7}{'slack':>7}{'step':>6}{'policy':>10}"
    f"{'rounds':>8}{'bound':>7}{'iteration':>12}{'lag':>6}{'largest':>9}  plain / this"
)


def of_choice(trials: Trials, choice: Choice, task: Task, lengths: str) -> str:
    """The whole report; `lengths` is the name of the table, for the commands."""
    lines = [TITLE, _line(trials, choice, "plain", choice.plain, is_reference=True)]
    for lever in LEVERS:
        if lever in choice.alone:
            name = f"  {lever.replace('_', ' ')}"
            lines.append(_line(trials, choice, name, choice.alone[lever]))
    lines += [
        _line(trials, choice, "best", choice.best),
        _line(trials, choice, "knee", choice.knee),
        "",
        *_reasons(trials, choice),
        "",
        f"actors generate, {task.found.cluster.generation[0].devices_per_actor} devices each; "
        "train: devices that train; step: prompts of a training step; rounds: of token",
        "budgets; bound: of the lag. Indented: the best turn of one lever, all others as in plain. "
        f"Means of {len(choice.seeds)} draws",
        "of the true lengths that the search had not seen; in brackets 95% intervals of the ratio "
        "of times.",
        "",
        *_commands(choice, task, lengths),
    ]
    return "\n".join(lines)


def _line(
    trials: Trials, choice: Choice, name: str, setting: Setting, is_reference: bool = False
) -> str:
    found = summary(trials, setting, choice.seeds)
    budgets = str(setting.max_rounds or "off")
    words = "" if is_reference else verdict(gain(trials, choice.plain, setting, choice.seeds))
    return (
        f"{name:20}{setting.split.num_actors:>7}{setting.split.training_devices:>7}"
        f"{setting.batch_size:>7}{setting.slack:>7g}{setting.prompts_per_group:>6}"
        f"{setting.policy:>10}{budgets:>8}{setting.max_lag:>7}{found.iteration_seconds:>10,.1f} s"
        f"{found.mean_lag:>6.1f}{found.largest_lag:>9}  {words}".rstrip()
    )


def verdict(interval: tuple[float, ...]) -> str:
    """A gain or a loss only where the interval is clear of 1."""
    ratio, low, high = interval
    change = f"{ratio:.2f}x ({low:.2f} to {high:.2f})"
    if low > 1:
        return f"{change}, a gain"
    return f"{change}, a loss" if high < 1 else f"{change}, no gain"


def _reasons(trials: Trials, choice: Choice) -> list[str]:
    knee, seeds = choice.knee, choice.seeds
    found = summary(trials, knee, seeds)
    shuffled = trials.seconds(knee, seeds, "async")
    lag = summary(trials, knee, seeds, "async").largest_lag
    beside = verdict(ratio_interval(shuffled, trials.seconds(knee, seeds)))
    lines = [
        f"The knee: {bound(found)}",
        "Against shuffled and asynchronous, without a schedule, on the same devices: "
        f"{beside}; the largest lag there is {lag}.",
    ]
    if choice.best != knee:
        ratio = ratio_interval(trials.seconds(knee, seeds), trials.seconds(choice.best, seeds))[0]
        lines.append(f"It takes {ratio:.2f}x the time of the best, and {_savings(choice)}.")
    if choice.best == choice.plain:
        lines.append("No setting was faster than the plain one.")
    elif knee == choice.plain:
        lines.append("It is the plain setting: what others gain is within the tolerance.")
    elif gain(trials, choice.plain, knee, seeds)[1] <= 1:
        lines.append("No gain over the plain setting is sure.")
    return lines


def bound(found: Summary) -> str:
    """Which side holds up the other, and where device time goes."""
    training, generation = found.idle_training, found.idle_generation
    waits = (
        f"training waits for a step {training:.0%} of its time, generation for leave to start "
        f"{generation:.0%}"
    )
    if min(training, generation) > BUSY:
        reason = "each waits for the other: the lag bound, and the longest of a step"
    elif max(training, generation) <= BUSY:
        reason = "both are busy, and bound it together"
    else:
        reason = f"{'training' if training < generation else 'generation'} bounds it"
    shares = {name: share for name, share in found.ledger.shares().items() if name != "useful"}
    largest = sorted(shares, key=lambda name: -shares[name])[:2]
    bubbles = ", ".join(f"{name} {shares[name]:.0%}" for name in largest)
    return f"{waits}; {reason}.\nLargest bubbles of all devices: {bubbles}."


def _savings(choice: Choice) -> str:
    """What the knee does with less of than the best."""
    best, knee = choice.best, choice.knee
    changes = [
        f"{what} {new} in place of {old}"
        for what, old, new in (
            ("a lag bound of", best.max_lag, knee.max_lag),
            ("training devices:", best.split.training_devices, knee.split.training_devices),
            ("actors:", best.split.num_actors, knee.split.num_actors),
            ("rounds of token budgets:", best.max_rounds, knee.max_rounds),
            ("policy", best.policy, knee.policy),
            ("slack", best.slack, knee.slack),
            ("batch size", best.batch_size, knee.batch_size),
            ("prompts of a step:", best.prompts_per_group, knee.prompts_per_group),
        )
        if old != new
    ]
    return "has " + ", ".join(changes)


def _commands(choice: Choice, task: Task, lengths: str) -> list[str]:
    """What makes the knee's schedule, and what its cluster file says."""
    knee = choice.knee
    model = json.dumps(asdict(task.found.cluster.cost_model))
    budgets = (
        f" --max-lag {knee.max_lag} --max-rounds {knee.max_rounds} --group-size {knee.group_size}"
        if knee.max_rounds
        else ""
    )
    memory = f" --kv-tokens {task.kv_tokens}" if task.kv_tokens else ""
    units = len(task.found.cluster.generation)
    units = units if knee.split.num_actors % units == 0 else 1
    speed = task.found.cluster.generation[0].speed
    # A file that lists speeds has one for each of its units.
    speeds = (
        "" if units == len(task.found.cluster.generation) else f" generation.speeds = [{speed!r}],"
    )
    return [
        "The knee, made:",
        f"  echo {shlex.quote(model)} > cost.json",
        f"  asp partition {shlex.quote(lengths)} --samples-per-prompt {task.samples_per_prompt} "
        f"--batch-size {knee.batch_size} --slack {knee.slack!r}{budgets}{memory} "
        "--cost-model cost.json -o - |",
        f"    asp balance - --prompts-per-group {knee.prompts_per_group} --policy {knee.policy} "
        "-o - | asp emit - -o schedule.parquet",
        f"and in {task.found.name}: generation.units = {units},{speeds} generation.actors = "
        f"{knee.split.num_actors // units}, training.devices = {knee.split.training_devices}, "
        f"lag.max_lag = {knee.max_lag}",
    ]
