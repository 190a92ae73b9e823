"""Which coefficients explain the timings of a profile?

A response of t tokens to a prompt of p, decoded with k - 1 others, is taken for one of k alike:

    latency = prefill k p + step t + sequence k t + kv k (p t + t^2 / 2)

which is c(t) of `model.py`. The time to the first token is the latency of one token. Non-negative
least squares on relative errors, so that long requests do not rule alone (Lawson and Hanson,
"Solving Least Squares Problems", 1974, chapter 23).

What the rows cannot tell apart is not guessed: it is left out or tied to the default, and said.

Arrays end in an axis legend: _r rows (responses), _o observations (latencies, first tokens),
_c coefficients of the model, _f what is free of them.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import nnls

from stages.costs.model import CostModel
from stages.tables.errors import AspError, first_few

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST_ROWS = 20
NUM_FOLDS = 5
LEAST_SPAN = 2.0  # 90th over 10th percentile below which a quantity counts as constant
LEAST_SINGULAR = 1e-4  # of the columns scaled to length 1, relative to the largest
STEP, SEQUENCE, PREFILL, KV = np.eye(4)  # the coefficients in the order of the model


@dataclass(frozen=True)
class Fit:
    """A cost model, how well it foretells latencies it was not fitted to, and what it rests on."""

    model: CostModel
    num_rows: int
    median_error: float  # of |predicted - latency| / latency, over held-out rows
    p90_error: float
    warnings: tuple[str, ...]  # what the rows could not tell


def fit_cost_model(profile: pl.DataFrame, name: str) -> Fit:
    """Fit to the responses of a profile that have latency_s and concurrency.

    Errors are measured in 5 folds by prompt.

    Args:
        profile: Schema Profile.
        name: Of the profile, for messages.

    Raises:
        AspError: Too few rows with timings, of several models, or too much alike.
    """
    rows = _timed_rows(profile, name)
    tokens_r, prompt_r, concurrency_r, latency_r, first_r = (
        rows[column].cast(pl.Float64).fill_null(0.0).to_numpy()
        for column in ("response_tokens", "prompt_tokens", "concurrency", "latency_s", "ttft_s")
    )
    free_cf, warnings = _free_coefficients(tokens_r, prompt_r, concurrency_r, name)
    cost_rc = _design(tokens_r, prompt_r, concurrency_r)
    has_first_r = first_r > 0
    first_oc = _design(np.ones(len(rows)), prompt_r, concurrency_r)[has_first_r]
    cost_oc = np.concatenate((cost_rc, first_oc))
    seconds_o = np.concatenate((latency_r, first_r[has_first_r]))
    scaled_of = cost_oc @ free_cf / seconds_o[:, None]
    _check_rank(scaled_of, name)
    fold_r = _folds(rows)
    fold_o = np.concatenate((fold_r, fold_r[has_first_r]))
    error_r = np.empty(len(rows))
    for fold in np.unique(fold_r):
        is_out_r = fold_r == fold
        foretold_r = cost_rc[is_out_r] @ free_cf @ _solve(scaled_of[fold_o != fold])
        error_r[is_out_r] = np.abs(foretold_r / latency_r[is_out_r] - 1)
    model = CostModel(*(free_cf @ _solve(scaled_of)).tolist())
    median, p90 = np.quantile(error_r, [0.5, 0.9]).tolist()
    return Fit(model, len(rows), median, p90, tuple(warnings))


def _timed_rows(profile: pl.DataFrame, name: str) -> pl.DataFrame:
    """The responses that tell something: of those cut off, the time is not that of their tokens."""
    rows = profile.filter(
        pl.col("latency_s") > 0,
        pl.col("concurrency").is_not_null(),
        pl.col("response_tokens") > 0,
        pl.col("finish_reason").cast(pl.String) != "abort",
    )
    if rows["prompt_tokens"].count():
        rows = rows.drop_nulls("prompt_tokens")
    if len(rows) < FEWEST_ROWS:
        raise AspError(
            f"{name}: holds {len(rows)} responses with latency_s and concurrency, and a cost model "
            f"needs {FEWEST_ROWS}; profile with --model, or record timings (asp profile "
            "--rollouts-latency-column, --rollouts-concurrency-column)"
        )
    models = rows["model"].unique().sort()
    if len(models) > 1:
        raise AspError(
            f"{name}: holds timings of {len(models)} models, {first_few(models)}; "
            "give a profile of the one to train"
        )
    if rows["prompt_hash"].n_unique() < NUM_FOLDS:
        raise AspError(
            f"{name}: the timings are of {rows['prompt_hash'].n_unique()} prompts, and a cost "
            f"model needs {NUM_FOLDS} to be checked on prompts held out; profile more prompts"
        )
    return rows


def _free_coefficients(
    tokens_r: Floats, prompt_r: Floats, concurrency_r: Floats, name: str
) -> tuple[Floats, list[str]]:
    """Directions of the coefficients that the rows can tell, and what is to be said of the rest."""
    free, warnings = [], []
    if _is_constant(concurrency_r):
        free.append(STEP + SEQUENCE * CostModel.sequence_seconds / CostModel.step_seconds)
        warnings.append(
            f"{name}: nearly all responses have one concurrency, which cannot tell the cost of a "
            "step from that of a sequence; their ratio is assumed, as in the default; add "
            "responses profiled at half the concurrency or less"
        )
    else:
        free += [STEP, SEQUENCE]
    if prompt_r.any():
        free.append(PREFILL)
    else:
        warnings.append(f"{name}: holds no prompt_tokens; prefill is taken to cost nothing")
    if _is_constant(prompt_r + tokens_r / 2):
        warnings.append(
            f"{name}: contexts are too alike in length to tell what they cost, which is taken to "
            "be nothing; add responses that differ in length"
        )
    else:
        free.append(KV)
    return np.column_stack(free), warnings


def _is_constant(quantity_r: Floats) -> bool:
    low, high = np.quantile(quantity_r, [0.1, 0.9])
    return bool(high < LEAST_SPAN * low)


def _design(tokens_r: Floats, prompt_r: Floats, concurrency_r: Floats) -> Floats:
    """What each coefficient is multiplied with, in the order of the model's."""
    context_r = prompt_r * tokens_r + tokens_r**2 / 2
    return np.column_stack(
        (tokens_r, concurrency_r * tokens_r, concurrency_r * prompt_r, concurrency_r * context_r)
    )


def _check_rank(scaled_of: Floats, name: str) -> None:
    singular = np.linalg.svd(scaled_of / np.linalg.norm(scaled_of, axis=0), compute_uv=False)
    if singular[-1] < LEAST_SINGULAR * singular[0]:
        raise AspError(
            f"{name}: its timings are too alike to tell {scaled_of.shape[1]} costs apart; profile "
            "prompts and responses of different lengths, at two concurrencies or more"
        )


def _solve(scaled_of: Floats) -> Floats:
    """Least squares of the relative errors; columns are scaled, for they differ by 10^6."""
    size_f = np.linalg.norm(scaled_of, axis=0)
    solution_f, _ = nnls(scaled_of / size_f, np.ones(len(scaled_of)))
    return np.asarray(solution_f / size_f)


def _folds(rows: pl.DataFrame) -> Ints:
    """A fold a prompt, in the order of the hashes, which is as good as random."""
    rank = rows["prompt_hash"].rank("dense").cast(pl.Int64)
    return ((rank - 1) % NUM_FOLDS).to_numpy()
