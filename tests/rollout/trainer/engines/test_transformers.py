"""The engine against a fresh forward pass of the same weights."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.trainer.samples import Draft, Sample
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.training_settings import TrainingSettings
from stages.tables.errors import AspError

MakeEngine = Callable[..., Any]
END = 1


@pytest.fixture(scope="module")
def snapshots(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """Version 0, and version 1 after a step of a high learning rate."""
    from rollout.trainer.training_unit import TrainingUnit

    made = Snapshots(tmp_path_factory.mktemp("snapshots"))
    unit = TrainingUnit(model_dir, TrainingSettings(temperature=1.0, learning_rate=0.01))
    unit.publish(made)
    unit.train(_groups())
    unit.publish(made)
    return made


def _groups() -> Any:
    ids = np.arange(10, 16)
    good = Sample(ids, ids, np.full(6, -5.6, np.float32), "stop", 1.0)
    from rollout.trainer.samples import SampleGroup

    return [SampleGroup(0, 0, (good, replace(good, token_ids=ids + 20, reward=0.0)), 0)]


@pytest.fixture(scope="module")
def make_engine(snapshots: Snapshots) -> MakeEngine:
    from rollout.trainer.engines.transformers import TransformersEngine

    def make(slots: int = 8, temperature: float = 1.0, seed: int = 0, version: int = 0) -> Any:
        engine = TransformersEngine(slots, temperature, seed)
        engine.load(version, snapshots.path(version))
        return engine

    return make


def draft(prompt: list[int], limit: int, sample: int = 0) -> Draft:
    return Draft(0, sample, tuple(prompt), limit)


@cache
def model_at(path: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path).eval()


def fresh_logprobs(path: Path, drafts: list[Draft], temperature: float) -> list[float]:
    import torch

    from rollout.trainer.policy import lay_out, score

    empty = np.empty(0)
    samples = [
        Sample(np.array(d.prompt_ids), np.array(d.token_ids), empty, "stop", 0.0) for d in drafts
    ]
    with torch.no_grad():
        logprob_t, _ = score(model_at(path), lay_out(samples, torch.device("cpu")), temperature)
    values: list[float] = logprob_t.tolist()
    return values


prompts = st.lists(st.lists(st.integers(2, 257), min_size=1, max_size=7), min_size=1, max_size=6)


@settings(max_examples=6)
@given(
    prompts,
    st.lists(st.integers(1, 20), min_size=6, max_size=6),
    st.integers(1, 5),
    st.sampled_from([0.6, 1.0, 1.5]),
    st.integers(0, 9),
)
def test_recorded_logprobs_are_those_of_a_fresh_pass(
    make_engine: MakeEngine, snapshots: Snapshots, ids: list[list[int]], limits: list[int],
    num_steps: int, temperature: float, seed: int,
) -> None:  # fmt: skip
    """Responses of all lengths, put down and taken up again after `num_steps`."""
    engine = make_engine(temperature=temperature, seed=seed)
    drafts = [draft(prompt, limit) for prompt, limit in zip(ids, limits, strict=False)]
    engine.add(drafts)
    through = engine.decode(num_steps)
    carried = engine.put_down()
    assert engine.put_down() == []
    assert sorted(map(id, through + carried)) == sorted(map(id, drafts))
    assert all(len(d.token_ids) == num_steps for d in carried)
    if carried:
        engine.add(carried)
        through += engine.decode(20)
    assert len(through) == len(drafts)
    for d in drafts:
        assert len(d.token_ids) == len(d.logprobs) == len(d.versions) <= d.limit
        assert d.end == ("stop" if d.token_ids[-1] == END else None)
        assert END not in d.token_ids[:-1]
        assert d.end is not None or len(d.token_ids) == d.limit
        assert set(d.versions) == {0}
    recorded = [value for d in drafts for value in d.logprobs]
    expected = fresh_logprobs(snapshots.path(0), drafts, temperature)
    assert recorded == pytest.approx(expected, abs=1e-4)


def test_tokens_are_drawn_with_their_probability(
    make_engine: MakeEngine, snapshots: Snapshots
) -> None:
    """The likeliest token comes as often as its recorded log-probability says."""
    engine = make_engine(slots=4000)
    drafts = [draft([40, 41], 1, n) for n in range(4000)]
    engine.add(drafts)
    engine.decode(1)
    recorded = np.array([d.logprobs[0] for d in drafts])
    tokens = np.array([d.token_ids[0] for d in drafts])
    likely = np.bincount(tokens).argmax()
    share, probability = (tokens == likely).mean(), np.exp(recorded[tokens == likely][0])
    assert abs(share - probability) < 4 * np.sqrt(probability / 4000)


def test_a_response_goes_on_under_other_weights(
    make_engine: MakeEngine, snapshots: Snapshots
) -> None:
    engine = make_engine()
    drafts = [draft([50, 51, 52], 12), draft([60], 9)]
    engine.add(drafts)
    engine.decode(3)
    carried = engine.put_down()
    engine.load(1, snapshots.path(1))
    assert engine.version == 1
    engine.add(carried)
    engine.decode(20)
    assert drafts[0].versions[:4] == [0, 0, 0, 1] and set(drafts[0].versions[3:]) == {1}
    old = fresh_logprobs(snapshots.path(0), drafts[:1], 1.0)
    new = fresh_logprobs(snapshots.path(1), drafts[:1], 1.0)
    assert drafts[0].logprobs == pytest.approx(old[:3] + new[3:], abs=1e-4)
    assert np.abs(np.subtract(old[3:], new[3:])).max() > 0.01


def test_slots_that_fell_empty_are_filled_while_others_are_decoded(
    make_engine: MakeEngine, snapshots: Snapshots
) -> None:
    engine = make_engine(slots=2)
    drafts = [draft([70], 2), draft([80, 81], 10), draft([90, 91, 92], 6)]
    engine.add(drafts[:2])
    through = engine.decode(2)
    assert drafts[0] in through
    engine.add(drafts[2:])
    engine.decode(20)
    recorded = [value for d in drafts for value in d.logprobs]
    assert recorded == pytest.approx(fresh_logprobs(snapshots.path(0), drafts, 1.0), abs=1e-4)


def test_a_damaged_snapshot_is_refused_and_the_old_weights_stay(
    make_engine: MakeEngine, snapshots: Snapshots, tmp_path: Path
) -> None:
    engine = make_engine()
    broken = Snapshots(tmp_path)
    with broken.new(2) as folder:
        (folder / "model.safetensors").write_bytes(b"weights")
    (broken.path(2) / "model.safetensors").write_bytes(b"weightz")
    with pytest.raises(AspError, match="damaged"):
        engine.load(2, broken.path(2))
    assert engine.version == 0
    engine.add([draft([2], 1)])
    assert len(engine.decode(1)) == 1


@pytest.mark.parametrize(("slots", "temperature"), [(0, 1.0), (1, 0.0), (1, float("inf"))])
def test_impossible_engines_are_refused(slots: int, temperature: float) -> None:
    from rollout.trainer.engines.transformers import TransformersEngine

    with pytest.raises(AspError):
        TransformersEngine(slots, temperature, 0)
