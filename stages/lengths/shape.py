"""How do a response's log lengths spread about their median, in units of sigma?

As a normal, or with heavier tails: Student's t, with degrees of freedom of its own on either side
of the median. A shape is kept as its map from a standard normal z to y = (log length - mu) / sigma,
which leaves the dependence between samples to the normal (a Gaussian copula). For a normal the map
is the identity.

Arrays end in an axis legend: _z points of the grid, _p prompts.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, stdtrit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REACH = 9.0  # deviations beyond which a normal's mass (1e-19) is left out
LOG_FLOOR = -60.0  # log of a probability taken for zero
STEPS = 100  # 1 / nu, and the share of chance, are rounded to 1 / STEPS: few values, so few tables
COARSEST = 0.25  # step of the trapezoid rule, in deviations
GRID_Z = np.linspace(-REACH, REACH, 1801)


def shape_codes(nu_below_p: Floats, nu_above_p: Floats) -> Ints:
    """A number a prompt, equal where the shapes are; degrees of freedom are infinite or above 1."""
    return _steps(1 / nu_below_p) * (STEPS + 1) + _steps(1 / nu_above_p)


def share_codes(share_p: Floats) -> Ints:
    """A number a prompt, equal where the shares of chance are."""
    return _steps(share_p)


def _steps(value_p: Floats) -> Ints:
    return np.round(STEPS * np.clip(value_p, 0.0, 1.0)).astype(np.int64)


def each_code(code_p: Ints) -> Iterator[tuple[int, slice | Ints]]:
    """Every code with its rows; a slice where all are one, which saves a copy."""
    codes, index_p = np.unique(code_p, return_inverse=True)
    if len(codes) == 1:
        yield int(codes[0]), slice(None)
        return
    order = np.argsort(index_p, kind="stable")
    starts = np.searchsorted(index_p[order], np.arange(len(codes)))
    for code, rows in zip(codes, np.split(order, starts[1:]), strict=True):
        yield int(code), rows


@lru_cache(maxsize=1024)
def stretch(shape_code: int) -> Floats:
    """y on GRID_Z: the t quantile of the normal's probability, on each side of 0."""
    below, above = divmod(shape_code, STEPS + 1)
    half_z = GRID_Z[GRID_Z >= 0]
    return np.concatenate((-_tail(below, half_z)[:0:-1], _tail(above, half_z)))


def _tail(inverse_nu: int, half_z: Floats) -> Floats:
    if inverse_nu == 0:
        return half_z
    tail_z: Floats = -stdtrit(STEPS / inverse_nu, ndtr(-half_z))
    tail_z[0] = 0.0
    return tail_z


@lru_cache(maxsize=1024)
def log_all_within(num_samples: int, share_code: int) -> Floats:
    """log of the chance that all samples of a prompt stay within z, on GRID_Z.

    With s the share of chance: log E[Phi((z - sqrt(1 - s^2) e) / s)^n] over a standard normal e,
    the error that the samples share.
    """
    share = share_code / STEPS
    if share_code == STEPS:
        log_within_z = num_samples * log_ndtr(GRID_Z)
    elif share_code == 0 or num_samples == 1:
        log_within_z = log_ndtr(GRID_Z)
    else:
        # The trapezoid rule, as fine as the step of a small share, which Gauss-Hermite would miss.
        e = np.linspace(-REACH, REACH, 1 + round(2 * REACH / min(share, COARSEST)))
        mass = np.exp(-(e**2) / 2)
        mass /= mass.sum()
        z = (GRID_Z[:, None] - np.sqrt(1 - share**2) * e) / share
        log_within_z = np.log(ndtr(z) ** num_samples @ mass + np.exp(LOG_FLOOR))
    log_within_z[-1] = 0.0
    floored_z: Floats = np.maximum(log_within_z, LOG_FLOOR)
    return floored_z
