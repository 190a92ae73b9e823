"""What does a run come to, simulated or real, in a few numbers?

An iteration is the time of one batch group's prompts: the whole run, with the queue's filling and
draining, over the batch groups of the schedule. So orders with other steps, and budgets, which
add steps of tails alone, are compared on the same prompts.
"""

from dataclasses import asdict, dataclass
from typing import Any

from rollout.simulator.ledger import Ledger
from rollout.simulator.run import Run


@dataclass(frozen=True)
class Measures:
    """Of one run."""

    iteration_seconds: float
    tokens_per_device_second: float  # response tokens trained on, over all devices
    queue_mean: float  # samples in the Training Queue, over time
    queue_swing: float  # standard deviation of that
    mean_lag: float  # training steps, over samples
    max_lag: int
    ledger: Ledger
    timed_out_responses: int
    timed_out_rewards: int
    failed_groups: int  # sample groups in which one of either timed out


def measure(run: Run, num_iterations: int) -> Measures:
    """Measure a run of so many batch groups' prompts."""
    mean, swing = run.queue()
    return Measures(
        run.seconds / num_iterations, run.tokens_per_device_second(), mean, swing,
        run.mean_lag(), run.max_lag, run.ledger, run.timed_out_responses, run.timed_out_rewards,
        len(run.failed),
    )  # fmt: skip


def results_of(run: Run, measures: Measures) -> dict[str, Any]:
    """What the footer of a run's tables keeps: measures, seconds, the ledger of each unit."""
    ledger_u = {unit: ledger.as_dict() for unit, ledger in run.ledger_u.items()}
    return asdict(measures) | {"seconds": run.seconds, "ledger_u": ledger_u}
