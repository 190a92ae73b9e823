"""The compiled recurrences of the dynamic programme.

Both take a cost as `programme.Cost` holds it: kind, key_p, prefix sums of tokens_p, fixed,
per_prompt, table, smallest, least_p, most_p.
"""

import numba
import numpy as np

UTILIZATION, STEP_COST, TABULATED = 0, 1, 2  # kinds of cost


@numba.njit(cache=True)
def _window_cost(  # type: ignore[no-untyped-def]
    kind, key_p, sums, fixed, per_prompt, table, smallest, least_p, most_p, i, j
):
    size, longest = j - i, key_p[j - 1]
    if len(most_p) and not least_p[i] <= size <= most_p[j - 1]:
        return np.inf
    if kind == TABULATED:
        return table[j, size - smallest]
    if kind == STEP_COST:
        return longest * (fixed + per_prompt * size)
    return -(sums[j] - sums[i]) / (size * longest) if longest > 0 else -1.0


@numba.njit(cache=True)
def shortest_path(  # type: ignore[no-untyped-def]
    kind, key_p, sums, fixed, per_prompt, table, smallest, least_p, most_p, lo, hi, price, fewest
):
    """Ends of the cheapest partition when each minibatch costs `price` more; empty if none.

    Among equals the one of fewest (or most) minibatches.
    """
    n = len(key_p)
    best = np.full(n + 1, np.inf)
    count = np.zeros(n + 1, dtype=np.int64)
    previous = np.full(n + 1, -1, dtype=np.int64)
    best[0] = 0.0
    for j in range(lo, n + 1):
        for i in range(max(0, j - hi), j - lo + 1):
            if best[i] == np.inf:
                continue
            total = best[i] + price
            total += _window_cost(
                kind, key_p, sums, fixed, per_prompt, table, smallest, least_p, most_p, i, j
            )
            if total == np.inf:
                continue
            steps = count[i] + 1
            is_better = total < best[j] or (
                total == best[j] and (steps < count[j] if fewest else steps > count[j])
            )
            if is_better:
                best[j], count[j], previous[j] = total, steps, i
    if best[n] == np.inf:
        return np.empty(0, dtype=np.int64)
    ends = np.empty(count[n], dtype=np.int64)
    j = n
    for k in range(count[n] - 1, -1, -1):
        ends[k] = j
        j = previous[j]
    return ends


@numba.njit(cache=True)
def layers(  # type: ignore[no-untyped-def]
    kind, key_p, sums, fixed, per_prompt, table, smallest, least_p, most_p, lo, hi, m
):
    """Ends of the cheapest partition into exactly m minibatches, one layer a minibatch."""
    n = len(key_p)
    best = np.full((m + 1, n + 1), np.inf)
    previous = np.full((m + 1, n + 1), -1, dtype=np.int32)
    best[0, 0] = 0.0
    for k in range(1, m + 1):
        first, last = max(k * lo, n - (m - k) * hi), min(k * hi, n - (m - k) * lo)
        for j in range(first, last + 1):
            for i in range(max(0, j - hi), j - lo + 1):
                if best[k - 1, i] == np.inf:
                    continue
                total = best[k - 1, i] + _window_cost(
                    kind, key_p, sums, fixed, per_prompt, table, smallest, least_p, most_p, i, j
                )
                if total < best[k, j]:
                    best[k, j], previous[k, j] = total, i
    ends = np.empty(m, dtype=np.int64)
    j = n
    for k in range(m, 0, -1):
        ends[k - 1] = j
        j = previous[k, j]
    return ends
