"""How often does a profile cost what its first responses foretell?

Recorded lengths stand for the model: 32 prompts' first responses are drawn at random, the cost of
500 others is foretold from them, and compared with what these took. A range of 90% should be
exceeded in 5% of draws, and fallen short of in 5%. Beside it two that were not chosen: the plain
Bayesian bootstrap at both ends, and the mean of a capped log-normal under the usual posterior of
its two parameters. The width is that of the middle draw, high end over low end.

    python benchmarks/profile_forecast.py [ROLLOUTS.parquet ...]    # default: sample_data/
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from machine import heading
from numpy.typing import NDArray

from stages.lengths.distribution import LengthDistribution
from stages.profile.forecast import HIGH, LOW, total_tokens

Floats = NDArray[np.float64]
Foretell = Callable[[Floats, int, int, int], tuple[float, float]]  # lengths, cap, number, seed
NUM_SEEN, NUM_FORETOLD, NUM_RUNS, NUM_DRAWS = 32, 500, 400, 1000


def chosen(seen: Floats, cap: int, number: int, seed: int) -> tuple[float, float]:
    total = total_tokens([int(n) for n in seen], cap, [1] * number, seed)
    return total.low, total.high


def plain_bootstrap(seen: Floats, cap: int, number: int, seed: int) -> tuple[float, float]:
    """Both ends from what was seen alone."""
    rng = np.random.default_rng(seed)
    weight_ds = rng.dirichlet(np.ones(len(seen)), NUM_DRAWS)
    mean_d = weight_ds @ seen
    chance_d = np.sqrt(number * np.maximum(weight_ds @ seen**2 - mean_d**2, 0))
    return _ends(number * mean_d + chance_d * rng.standard_normal(NUM_DRAWS))


def log_normal(seen: Floats, cap: int, number: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    log_s, freedom = np.log(np.clip(seen, 1, cap)), len(seen) - 1
    sigma_d = np.sqrt(log_s.var(ddof=1) * freedom / rng.chisquare(freedom, NUM_DRAWS))
    mu_d = log_s.mean() + rng.standard_normal(NUM_DRAWS) * sigma_d / np.sqrt(len(seen))
    fitted = LengthDistribution.of(mu_d, sigma_d, np.full(NUM_DRAWS, float(cap)))
    mean_d = fitted.expected_tokens()
    variance_d = np.maximum(fitted.squared().expected_tokens() - mean_d**2, 0)
    return _ends(number * mean_d + np.sqrt(number * variance_d) * rng.standard_normal(NUM_DRAWS))


def _ends(total_d: Floats) -> tuple[float, float]:
    return float(np.quantile(total_d, LOW)), float(np.quantile(total_d, HIGH))


WAYS: dict[str, Foretell] = {
    "chosen": chosen, "plain bootstrap": plain_bootstrap, "log-normal": log_normal,
}  # fmt: skip


def judge(length_p: Floats, cap: int, foretell: Foretell) -> tuple[float, float, float]:
    """Share of runs above and below the range, and its width."""
    above, below, widths = 0, 0, []
    number = min(NUM_FORETOLD, len(length_p) - NUM_SEEN)
    for seed in range(NUM_RUNS):
        drawn = np.random.default_rng(seed).permutation(length_p)
        low, high = foretell(drawn[:NUM_SEEN], cap, number, seed)
        cost = drawn[NUM_SEEN : NUM_SEEN + number].sum()
        above, below = above + int(cost > high), below + int(cost < low)
        widths.append(high / low)
    return above / NUM_RUNS, below / NUM_RUNS, float(np.median(widths))


def recorded(path: Path) -> list[tuple[str, Floats, int]]:
    """Of each model one response of each prompt, and the cap: the file's, else the longest."""
    table = pl.read_parquet(path).filter(pl.col("response_tokens") > 0)
    if "max_tokens" not in table.columns:
        table = table.with_columns(max_tokens=pl.lit(None, pl.Int64))
    found = []
    for (model,), rows in table.group_by("model", maintain_order=True):
        length_p = rows.unique("prompt", keep="first", maintain_order=True)["response_tokens"]
        caps = (rows["max_tokens"].max(), rows["response_tokens"].max())
        if len(length_p) >= 10 * NUM_SEEN:
            cap = max(int(c) for c in caps if c is not None)  # type: ignore[arg-type]
            found.append((str(model), length_p.to_numpy().astype(np.float64), cap))
    return found


if __name__ == "__main__":
    root = Path(__file__).parent.parent
    paths = [Path(p) for p in sys.argv[1:]] or [root / "sample_data/rollouts.parquet"]
    print(heading("What a profile will cost, foretold"))
    columns = ["model", "prompts", "cap / mean", *(f"{way}: above, below, width" for way in WAYS)]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for path in paths:
        for model, length_p, cap in recorded(path):
            cells = [f"{model}", f"{len(length_p)}", f"{cap / length_p.mean():.0f}"]
            for foretell in WAYS.values():
                above, below, width = judge(length_p, cap, foretell)
                cells.append(f"{above:.0%}, {below:.0%}, {width:.1f}x")
            print("| " + " | ".join(cells) + " |", flush=True)
