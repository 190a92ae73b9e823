"""A simulated run, and a comparison of several, told to a person."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rollout.simulator.compare import Compared
from rollout.simulator.ledger import Ledger
from rollout.simulator.measures import Measures

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
REFERENCES = ("async", "bounded")  # without a schedule; the second keeps the lag bound
TITLES = {"static": "static minibatches", "continuous": "continuous batching"}


def of_run(measures: Measures, num_steps: int, seconds: float) -> list[str]:
    """Lines on one run."""
    lines = [
        f"{num_steps:,} training steps in {seconds:,.1f} s; "
        f"{measures.iteration_seconds:,.1f} s an iteration, "
        f"{measures.tokens_per_device_second:,.1f} tokens a second a device",
        f"Training Queue: {measures.queue_mean:,.0f} samples on average, swing (standard "
        f"deviation) {measures.queue_swing:,.0f}; lag: {measures.mean_lag:.2f} steps on average, "
        f"at most {measures.max_lag}",
        "device time: " + _shares(measures.ledger.tenths()),
    ]
    if measures.failed_groups:
        lines.append(
            f"timed out: {measures.timed_out_responses:,} responses, "
            f"{measures.timed_out_rewards:,} rewards, in {measures.failed_groups:,} sample groups; "
            "they are not trained on"
        )
    return lines


def of_comparison(compared: Compared, num_seeds: int) -> str:
    """A block an engine, a line a way to run; whether each gains over what has no schedule."""
    lines = []
    for engine, ways in compared.items():
        lines.append(
            f"{TITLES[engine]:20}{'iteration':>12}{'tokens/s':>11}{'lag':>7}{'largest':>9}  "
            f"{'async / this':32}{'bounded / this':32}largest bubbles"
        )
        for name, runs in ways.items():
            mean_lag = np.mean([run.mean_lag for run in runs])
            tokens = np.mean([run.tokens_per_device_second for run in runs])
            verdicts = [
                "" if name == reference else _verdict(_seconds(ways[reference]), _seconds(runs))
                for reference in REFERENCES
            ]
            ledger = sum((run.ledger for run in runs), Ledger())
            lines.append(
                f"{name:20}{_seconds(runs).mean():>10,.1f} s{tokens:>11,.1f}{mean_lag:>7.2f}"
                f"{max(run.max_lag for run in runs):>9}  "
                f"{verdicts[0]:32}{verdicts[1]:32}{_bubbles(ledger)}"
            )
        lines.append("")
    lines.append(
        f"Means of {num_seeds} draws of the true lengths; tokens a second a device; lag in steps.\n"
        f"In brackets: {CONFIDENCE:.0%} intervals of the ratio of iteration times to shuffled "
        "prompts, trained on\nas they complete, whatever the lag (async), and in the fastest way "
        "found in which no lag exceeds max_lag (bounded)."
    )
    return "\n".join(lines)


def ratio_interval(numerator: Floats, denominator: Floats) -> tuple[float, ...]:
    """Geometric mean of paired ratios, and the ends of its interval, by Student's t of the logs."""
    logs = np.log(numerator / denominator)
    mean = float(logs.mean())
    reach = float(stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2))
    reach *= float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def _verdict(reference: Floats, seconds: Floats) -> str:
    """A gain or a loss only where the interval is clear of 1."""
    ratio, low, high = ratio_interval(reference, seconds)
    change = f"{ratio:.2f}x ({low:.2f} to {high:.2f})"
    if low > 1:
        return f"{change}, a gain"
    return f"{change}, a loss" if high < 1 else f"{change}, no gain"


def _seconds(runs: list[Measures]) -> Floats:
    return np.array([run.iteration_seconds for run in runs])


def _bubbles(ledger: Ledger) -> str:
    """The two that cost most."""
    tenths = ledger.tenths()
    del tenths["useful"]
    largest = sorted(tenths, key=lambda name: -tenths[name])[:2]
    return _shares({name: tenths[name] for name in largest if tenths[name]})


def _shares(tenths: dict[str, int]) -> str:
    return ", ".join(f"{name} {share / 10:.1f}%" for name, share in tenths.items())
