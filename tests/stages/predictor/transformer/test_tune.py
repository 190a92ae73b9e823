from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stages.predictor.backend import Observations
from stages.predictor.transformer.base import Base, load_base
from stages.predictor.transformer.encode import encode
from stages.predictor.transformer.journal import Journal
from stages.predictor.transformer.memory import Memory
from stages.predictor.transformer.model import LengthModel
from stages.predictor.transformer.states import pooled_states
from stages.predictor.transformer.steps import Batcher
from stages.predictor.transformer.team import Alone
from stages.predictor.transformer.tune import read, tune

NUM_PROMPTS = 160
WORDS = ("list", "prove", "add", "user")


class Killed(Exception):
    """Stands for a kill."""


class KilledJournal(Journal):
    """A journal whose run ends after it has kept so many checkpoints."""

    def __init__(self, folder: Path, num_checkpoints: int) -> None:
        super().__init__(folder)
        self._left = num_checkpoints

    def keep(self, name: str, content: Mapping[str, Any]) -> None:
        super().keep(name, content)
        self._left -= 1
        if self._left == 0:
            raise Killed


def observe() -> Observations:
    """Two samples a prompt; the length goes with how often each word stands in it."""
    rng = np.random.default_rng(0)
    count_pw = rng.integers(0, 4, (NUM_PROMPTS, len(WORDS)))
    texts = [
        " ".join(rng.permutation([w for w, n in zip(WORDS, row, strict=True) for _ in range(n)]))
        for row in count_pw
    ]
    mu_p = 3 + count_pw @ [1.0, -0.5, 0.5, 0.0]
    length_s = np.repeat(mu_p, 2) + 0.1 * rng.standard_normal(2 * NUM_PROMPTS)
    prompt_s = np.repeat(np.arange(NUM_PROMPTS), 2)
    return Observations(texts, prompt_s, np.minimum(length_s, 5.5), length_s >= 5.5)


def tuned(
    path: Path, journal: Journal, max_epochs: int = 3, has_adapters: bool = False
) -> tuple[LengthModel, float, Base]:
    base = load_base(str(path))
    observations = observe()
    is_aside_p = np.arange(NUM_PROMPTS) % 4 == 0
    prompts = encode(base, observations.texts, 64)
    state_pd = pooled_states(base, prompts, Journal(None), Alone())[:, -base.width :]
    model = LengthModel(base, has_adapters=has_adapters)
    model.start_from(state_pd[~is_aside_p], observations.subset(~is_aside_p), 10.0)
    tau = tune(model, prompts, observations, is_aside_p, max_epochs, 0, journal, Alone())
    return model, tau, base


def test_tuning_orders_prompts_kept_aside_better_than_its_start(causal_path: Path) -> None:
    _, frozen_tau, _ = tuned(causal_path, Journal(None), max_epochs=0)
    _, tuned_tau, _ = tuned(causal_path, Journal(None), max_epochs=8)
    assert tuned_tau > frozen_tau


def test_a_killed_run_ends_as_one_that_was_not(encoder_path: Path, tmp_path: Path) -> None:
    # The encoder has dropout, which must fall alike.
    straight, straight_tau, _ = tuned(encoder_path, Journal(None))
    journal = KilledJournal(tmp_path / "journal", num_checkpoints=3)
    journal.open({}, force=False)
    with pytest.raises(Killed):
        tuned(encoder_path, journal)
    resumed, resumed_tau, _ = tuned(encoder_path, Journal(tmp_path / "journal"))
    assert resumed_tau == straight_tau
    for name, value in straight.tuned().items():
        assert torch.equal(value, resumed.tuned()[name]), name


def test_adapters_leave_the_base_alone(causal_path: Path) -> None:
    pytest.importorskip("peft")
    before = load_base(str(causal_path)).model.state_dict()
    model, _, base = tuned(causal_path, Journal(None), max_epochs=1, has_adapters=True)
    names = set(model.tuned())
    assert {"head.weight", "mean_d"} < names
    assert any("lora_A" in name for name in names)
    assert all("lora_" in n for n in names if n.startswith("body"))
    after = {n.replace(".base_layer", ""): v for n, v in base.model.state_dict().items()}
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_a_model_is_restored_from_what_was_tuned(causal_path: Path) -> None:
    model, _, base = tuned(causal_path, Journal(None), max_epochs=1)
    prompts = encode(base, ["list list", "prove"], 64)
    again = LengthModel(load_base(str(causal_path)), has_adapters=False)
    again.restore(model.tuned())
    (mu, sigma), (mu_again, sigma_again) = (
        read(m, prompts, Memory(100), Alone()) for m in (model, again)
    )
    assert np.array_equal(mu, mu_again)
    assert np.array_equal(sigma, sigma_again)


def test_the_head_starts_as_the_ridge_on_frozen_states(causal_path: Path) -> None:
    base = load_base(str(causal_path))
    observations = observe()
    prompts = encode(base, observations.texts, 64)
    state_pd = pooled_states(base, prompts, Journal(None), Alone())[:, -base.width :]
    model = LengthModel(base, has_adapters=False)
    model.start_from(state_pd, observations, 10.0)
    mu_p, sigma_p = read(model, prompts, Memory(500), Alone())
    z_pd = (state_pd - state_pd.mean(0)) / state_pd.std(0)
    from stages.predictor.ridge import fit_censored_ridge

    fit = fit_censored_ridge(z_pd, observations, 10.0)
    expected_p = z_pd @ fit.ridge.weight_d + fit.ridge.intercept  # the ridge itself also clips
    assert mu_p == pytest.approx(expected_p, abs=1e-3)
    assert sigma_p == pytest.approx(np.full(NUM_PROMPTS, fit.sigma), rel=1e-5)


def test_memory_changes_the_passes_but_not_the_likelihood_gradient(causal_path: Path) -> None:
    """Prompts that are too close to be ranked: then passes are independent."""
    base = load_base(str(causal_path))
    texts = ["list " * n for n in range(1, 9)]
    observations = Observations(texts, np.arange(8), np.full(8, 4.0), np.zeros(8, dtype=bool))
    prompts = encode(base, texts, 64)
    model = LengthModel(base, has_adapters=False).eval()
    batcher = Batcher(prompts, observations, np.arange(8), seed=0)
    gradients = []
    for max_tokens in (10_000, 20):
        batcher.backward(model, Alone(), np.arange(8), max_tokens, learns_sigma=True)
        gradients.append(model.head.weight.grad.clone())  # type: ignore[union-attr]
    assert gradients[0].abs().sum() > 0
    assert torch.allclose(*gradients, atol=1e-5)


def test_every_prompt_is_in_one_step_of_an_epoch() -> None:
    prompts = [[1] * (1 + n % 7) for n in range(100)]
    observations = Observations(["x"] * 100, np.arange(100), np.zeros(100), np.zeros(100, bool))
    batcher = Batcher(prompts, observations, np.arange(10, 100), seed=0)
    first, second = batcher.epoch(0), batcher.epoch(1)
    assert len(first) == batcher.steps_per_epoch == 3
    for epoch in (first, second):
        assert sorted(np.concatenate(epoch)) == list(range(10, 100))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
