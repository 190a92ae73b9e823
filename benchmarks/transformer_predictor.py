r"""What does a language model add to the text features?

Trains both backends on a profile, with the same folds, and compares what they say of the prompts
that the transformer backend held out (all, or one fold where the tuned model is kept): Kendall's
tau-b and the recall of the longest fifth, against the mean of each prompt's samples, of the order
that a predictor's own scores are of and of the expected length. What a killed run had finished lies
in JOURNAL; the same command goes on from there.

    python benchmarks/transformer_predictor.py PROFILE BASE_MODEL JOURNAL \
        MAX_PROMPT_TOKENS MAX_EPOCHS
"""

import logging
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from machine import heading

from stages.predictor.backend import Prediction, TransformerOptions
from stages.predictor.evaluation.measures import recall, tau
from stages.predictor.observations import observe
from stages.predictor.train import TrainConfig, train
from stages.tables.derived import complete_profile
from stages.tables.errors import log
from stages.tables.io import read_table
from stages.tables.schemas import Profile

RESAMPLES = 200  # of the prompts, for the interval of the difference


def main() -> None:
    """Print scores of both backends, and what training said."""
    profile, base_model, journal, max_prompt_tokens, max_epochs = sys.argv[1:]
    options = TransformerOptions(base_model, int(max_prompt_tokens), int(max_epochs))
    log.addHandler(logging.StreamHandler(sys.stderr))
    log.setLevel(logging.INFO)
    evidence = observe(read_table(profile, Profile, complete_profile).frame, profile)
    print(heading("Text features against a language model"))
    print(
        "| backend | prompts | tau / recall of longest fifth | the same by expected tokens "
        "| seconds |\n|---|---|---|---|---|"
    )
    tables: dict[str, pl.DataFrame] = {}
    seconds: dict[str, float] = {}
    for config in (TrainConfig(), TrainConfig("transformer", transformer=options)):
        start = time.perf_counter()
        held_out = train(evidence, config, Path(journal)).held_out
        seconds[config.backend] = time.perf_counter() - start
        assert held_out is not None
        tables[config.backend] = held_out
    judged = tables["transformer"]
    tables["embedded"] = judged.select("prompt_hash").join(
        tables["embedded"], on="prompt_hash", maintain_order="left"
    )
    observed_p = judged["observed_mean"].to_numpy()
    orders = {name: order_of(table) for name, table in tables.items()}
    for name, table in tables.items():
        scores = [
            f"{tau(predicted_p, observed_p):.4f} / {recall(predicted_p, observed_p, 0.2):.3f}"
            for predicted_p in (orders[name], table["expected_tokens"].to_numpy())
        ]
        print(f"| {name} | {len(judged):,} | {' | '.join(scores)} | {seconds[name]:.0f} |")
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(len(judged), size=len(judged))
        after, before = (
            tau(orders[name][drawn], observed_p[drawn]) for name in ("transformer", "embedded")
        )
        gains.append((after or 0.0) - (before or 0.0))
    low, high = np.quantile(gains, [0.05, 0.95])
    print(f"\ntransformer less embedded, 90% interval over prompts: {low:+.4f} to {high:+.4f} tau")


def order_of(held_out: pl.DataFrame) -> np.ndarray:
    """What a predictor orders the prompts by."""
    mu_p, sigma_p, sample_sigma_p = (
        held_out[name].to_numpy() for name in ("mu", "sigma", "sample_sigma")
    )
    nus = (held_out[name].fill_null(np.inf).to_numpy() for name in ("nu_below", "nu_above"))
    return Prediction(mu_p, sigma_p, sample_sigma_p, *nus).order()


if __name__ == "__main__":
    main()
