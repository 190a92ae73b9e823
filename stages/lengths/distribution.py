"""How long is a response, and how long the longest of many?

A response has L = min(exp(X), cap) tokens with X = mu + sigma y(Z), Z standard normal and y the
shape (`shape.py`): y(Z) = Z, so that L is log-normal, or heavier in the tails. mu is the median of
X. Samples of one prompt share the prediction's error: Z = shared + chance, where chance has
deviation sample_sigma / sigma and shared the rest. Ignoring that makes the longest of n samples
look longer than it will be.

Arrays end in an axis legend: _p prompts, _q quadrature nodes or lengths.
Everything here is numpy and scipy.special; nothing reads or writes.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from stages.lengths import longest
from stages.lengths.shape import (
    GRID_Z,
    REACH,
    STEPS,
    Floats,
    Ints,
    each_code,
    log_all_within,
    shape_codes,
    share_codes,
    stretch,
)

Rows = slice | NDArray[np.int64] | NDArray[np.bool_]

NUM_NODES = 48  # Gauss-Legendre nodes of an expectation
LOG_NEGLIGIBLE = -14.0  # log of the share of a length that may be left out below it: 1e-6
BLOCK = 4_000  # prompts integrated at a time: their nodes stay in the cache
_NODE_Q, _WEIGHT_Q = np.polynomial.legendre.leggauss(NUM_NODES)


@dataclass(frozen=True)
class LengthDistribution:
    """The distributions of the response lengths of some prompts, one a prompt.

    Made by `of`, which fills in what is not given. Indexing by rows keeps some of the prompts.
    """

    mu_p: Floats  # log tokens; median of the log length
    sigma_p: Floats  # log tokens; scale of the log length, its deviation where it is normal
    cap_p: Floats  # tokens
    sample_sigma_p: Floats  # log tokens; of sigma, chance between samples; NaN: all of it
    nu_below_p: Floats  # degrees of freedom of the shape below the median; inf: normal
    nu_above_p: Floats  # above the median

    @classmethod
    def of(
        cls,
        mu: ArrayLike,
        sigma: ArrayLike,
        cap: ArrayLike,
        sample_sigma: ArrayLike = np.nan,
        nu_below: ArrayLike = np.inf,
        nu_above: ArrayLike = np.inf,
    ) -> "LengthDistribution":
        """From arrays or numbers, a number standing for all prompts."""
        given = (mu, sigma, cap, sample_sigma, nu_below, nu_above)
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(g, np.float64)) for g in given))
        return cls(*arrays)

    def __len__(self) -> int:
        return len(self.mu_p)

    def __getitem__(self, rows: Rows) -> "LengthDistribution":
        return LengthDistribution(*(getattr(self, f.name)[rows] for f in fields(self)))

    def squared(self) -> "LengthDistribution":
        """Of the squared lengths: min(exp(X), cap)^2 is min(exp(2 X), cap^2), of the same kind."""
        return replace(
            self,
            mu_p=2 * self.mu_p,
            sigma_p=2 * self.sigma_p,
            cap_p=self.cap_p**2,
            sample_sigma_p=2 * self.sample_sigma_p,
        )

    def log_quantile(self, level: float) -> Floats:
        """The log length, not capped, that a response stays within with probability `level`."""
        return self._log_length(float(ndtri(level)))

    def log_reach(self) -> Floats:
        """The log length, not capped, that no response exceeds but by a chance of 1e-19."""
        return self._log_length(REACH)

    def lengths_at(self, z_pq: Floats) -> Floats:
        """L in tokens at values of the standard normal Z, prompts down: what a draw of Z gives."""
        y_pq = self._mapped(z_pq, lambda z, stretch_z: np.interp(z, GRID_Z, stretch_z))
        with np.errstate(over="ignore"):
            log_length_pq = self.mu_p[:, None] + self.sigma_p[:, None] * y_pq
        tokens_pq: Floats = np.exp(np.minimum(log_length_pq, np.log(self.cap_p)[:, None]))
        return tokens_pq

    def quantile(self, level: float) -> Floats:
        """The length [tokens] that a response stays within with probability `level` in (0, 1)."""
        length_p: Floats = np.exp(np.minimum(self.log_quantile(level), np.log(self.cap_p)))
        return length_p

    def cap_risk(self) -> Floats:
        """P(L = cap), the chance that a response meets the cap."""
        return np.asarray(ndtr(-self.normal_score(np.log(self.cap_p))))

    def normal_score(self, log_t_p: Floats) -> Floats:
        """The standard normal's value at which X is log t; +-inf beyond REACH.

        Where sigma is 0 and mu is log t it is -inf: a response meets a cap that it just reaches.
        """
        y_p = self._standardised(log_t_p[:, None])[:, 0]
        y_p = np.where((self.sigma_p == 0) & (log_t_p == self.mu_p), -np.inf, y_p)
        return self._mapped(
            y_p, lambda y, stretch_z: np.interp(y, stretch_z, GRID_Z, left=-np.inf, right=np.inf)
        )

    def survival(self, tokens: ArrayLike) -> Floats:
        """P(L > tokens), the chance that a response is longer; 0 from the cap on."""
        tokens_p = np.broadcast_to(np.asarray(tokens, np.float64), self.mu_p.shape)
        with np.errstate(divide="ignore"):
            above_p = ndtr(-self.normal_score(np.log(tokens_p)))
        return np.where(tokens_p >= self.cap_p, 0.0, above_p)

    def expected_tokens(self) -> Floats:
        """E[L] in tokens."""
        return self.limited(np.inf)

    def limited(self, tokens: ArrayLike) -> Floats:
        """E[min(L, tokens)]: what is generated of a response within a token budget."""
        return self._excess(np.zeros(len(self)), np.broadcast_to(tokens, self.mu_p.shape))

    def remainder(self, tokens: ArrayLike) -> Floats:
        """E[L - tokens | L > tokens]: what a response that has come so far has left.

        0 where none comes so far.
        """
        tokens_p = np.broadcast_to(np.asarray(tokens, np.float64), self.mu_p.shape)
        above_p = self.survival(tokens_p)
        excess_p = self._excess(tokens_p, np.full(len(self), np.inf))
        return np.divide(excess_p, above_p, out=np.zeros(len(self)), where=above_p > 0)

    def expected_longest(self, num_samples: int) -> Floats:
        """E of the longest of `num_samples` responses to each prompt, in tokens."""
        return self.expected_longest_of_sets(num_samples, np.arange(len(self) + 1))

    def expected_longest_of_sets(self, num_samples: int, starts: Ints) -> Floats:
        """E of the longest of all responses to each set of consecutive prompts, in tokens.

        Args:
            num_samples: Responses a prompt, n.
            starts: Set k holds prompts starts[k] to starts[k+1] - 1; the last entry is their
                number. No set is empty.
        """
        return longest.of_sets(
            [self._log_length(z) for z in longest.REACHES],
            self.mu_p,
            np.log(self.cap_p),
            starts,
            lambda rows, log_t_pq: self[rows]._log_within(log_t_pq, num_samples),
        )

    def log_all_within(self, log_t_q: Floats, num_samples: int) -> Floats:
        """log of the chance that all samples of a prompt stay within each length.

        Args:
            log_t_q: Logs of the lengths.
            num_samples: Responses a prompt, n.

        Returns:
            Prompts by lengths, at least LOG_FLOOR.
        """
        return self._log_within(np.broadcast_to(log_t_q, (len(self), len(log_t_q))), num_samples)

    def chance_share(self) -> Floats:
        """sample_sigma / sigma, 1 where it is not known."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share_p = self.sample_sigma_p / self.sigma_p
        return np.where(np.isfinite(share_p), share_p, 1.0)

    def _log_within(self, log_t_pq: Floats, num_samples: int) -> Floats:
        y_pq = self._standardised(log_t_pq)
        y_pq = np.where(log_t_pq >= np.log(self.cap_p)[:, None], np.inf, y_pq)
        log_within_pq = np.empty_like(y_pq)
        shape_p = shape_codes(self.nu_below_p, self.nu_above_p)
        code_p = shape_p * (STEPS + 1) + share_codes(self.chance_share())
        for code, rows in each_code(code_p):
            shape, share = divmod(code, STEPS + 1)
            log_within_pq[rows] = np.interp(
                y_pq[rows], stretch(shape), log_all_within(num_samples, share)
            )
        return log_within_pq

    def _excess(self, low_p: Floats, high_p: Floats) -> Floats:
        """E[min(L, high) - min(L, low)] in tokens; low is 0 or more."""
        blocks = [slice(start, start + BLOCK) for start in range(0, len(self), BLOCK)]
        parts = [self[block]._excess_of_block(low_p[block], high_p[block]) for block in blocks]
        return np.concatenate(parts) if parts else np.empty(0)

    def _excess_of_block(self, low_p: Floats, high_p: Floats) -> Floats:
        """Integral over z of phi(z) (min(exp(X), high) - low), from the z at which X is log low."""
        high_p = np.minimum(high_p, self.cap_p)
        log_high_p = np.log(high_p)
        # Below both the median and the bound by this much, lengths no longer count.
        with np.errstate(divide="ignore"):
            log_low_p = np.maximum(
                np.minimum(self.mu_p, log_high_p) + LOG_NEGLIGIBLE, np.log(low_p)
            )
        last_p = np.clip(self.normal_score(log_high_p), -REACH, REACH)
        first_p = np.minimum(np.clip(self.normal_score(log_low_p), -REACH, REACH), last_p)
        half_p = (last_p - first_p) / 2
        z_pq = first_p[:, None] + half_p[:, None] * (_NODE_Q + 1)
        y_pq = self._mapped(z_pq, lambda z, stretch_z: np.interp(z, GRID_Z, stretch_z))
        with np.errstate(over="ignore"):
            log_length_pq = self.mu_p[:, None] + self.sigma_p[:, None] * y_pq
        length_pq = np.exp(np.minimum(log_length_pq, log_high_p[:, None]))
        density_pq = np.exp(-(z_pq**2) / 2) / np.sqrt(2 * np.pi)
        # Summed row by row: a matrix product rounds a row by its place, and equal prompts would tie
        # no longer.
        area_p = ((length_pq - low_p[:, None]) * density_pq * _WEIGHT_Q).sum(axis=1)
        excess_p = half_p * area_p + (high_p - low_p) * ndtr(-self.normal_score(log_high_p))
        bounded_p: Floats = np.clip(excess_p, 0.0, np.maximum(high_p - low_p, 0.0))
        return bounded_p

    def _standardised(self, log_t_pq: Floats) -> Floats:
        """(log t - mu) / sigma; +-inf where sigma is 0, +inf where log t is mu too."""
        distance_pq = log_t_pq - self.mu_p[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            y_pq = distance_pq / self.sigma_p[:, None]
        certain_pq = np.where(distance_pq >= 0, np.inf, -np.inf)
        return np.where(self.sigma_p[:, None] > 0, y_pq, certain_pq)

    def _log_length(self, z: float) -> Floats:
        """X at one value of the standard normal."""
        z_p = np.full(len(self), z)
        y_p = self._mapped(z_p, lambda z, stretch_z: np.interp(z, GRID_Z, stretch_z))
        with np.errstate(over="ignore"):
            log_length_p: Floats = self.mu_p + self.sigma_p * y_p
        return log_length_p

    def _mapped(self, value_p: Floats, function: Callable[[Floats, Floats], Floats]) -> Floats:
        """The function of each prompt's value and its shape's table."""
        mapped_p = np.empty_like(value_p)
        for code, rows in each_code(shape_codes(self.nu_below_p, self.nu_above_p)):
            mapped_p[rows] = function(value_p[rows], stretch(code))
        return mapped_p
