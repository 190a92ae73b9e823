"""Did a run train on what was offered?

*Offered* is every response as it was generated first; *trained on* is what took part in a step.
They are the same unless sample groups that were cut began again.
"""

from collections.abc import Sequence

import numpy as np

from rollout.control.plan import Plan
from rollout.control.settings import Carry

Lengths = Sequence[tuple[list[int], list[int]]]  # of a group: trained on, offered


def of_lengths(lengths: Lengths, plan: Plan, carry: Carry) -> list[str]:
    """Lines on the two distributions."""
    trained = np.array([tokens for made, _ in lengths for tokens in made])
    offered = np.array([tokens for _, first in lengths for tokens in first])
    if np.array_equal(trained, offered):
        quantiles = np.quantile(trained, [0.5, 0.9, 1.0])
        return [
            f"responses trained on: all that were offered, {trained.mean():,.0f} tokens on "
            f"average, half within {quantiles[0]:,.0f}, nine in ten within {quantiles[1]:,.0f}, "
            f"the longest {quantiles[2]:,.0f}"
        ]
    lines = [
        f"responses trained on: {trained.mean():,.0f} tokens on average, longest {trained.max():,}"
    ]
    budget = plan.budget_r[0]
    if carry == "restart" and budget is not None:
        lines.append(_bias(trained, offered, budget, max(plan.samples_g)))
    return lines


def _bias(trained: np.ndarray, offered: np.ndarray, budget: int, group: int) -> str:
    """How far responses beyond the budget are under-represented.

    A sample group in which one is cut is drawn again, so with independent draws they are trained
    on at p (1 - (1 - p)^n) in place of p.
    """
    before, after = float((offered >= budget).mean()), float((trained >= budget).mean())
    expected = before * (1 - (1 - before) ** group)
    return (
        f"restarted sample groups: responses of {budget:,} tokens or more were {before:.1%} of "
        f"those offered and are {after:.1%} of those trained on; independent draws would give "
        f"{expected:.1%}"
    )
