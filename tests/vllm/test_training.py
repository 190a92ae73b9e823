"""vLLM as the engine of the trainer: log-probabilities, new weights, and a whole run."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rollout.trainer.samples import Draft, Sample, SampleGroup
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.training_settings import TrainingSettings
from stages.tables.errors import AspError
from stages.tables.prompts import prompt_hash
from tests.tiny import byte_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
Asp = Callable[..., Any]
TEMPERATURE, SLOTS, ROOM = 0.7, 64, 480


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A Qwen2 of random parameters, with heads of a size that vLLM takes on a CPU."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = byte_tokenizer("one and one", 270, ["<pad>", "<end>"])
    folder = tmp_path_factory.mktemp("policy") / "tiny"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.15, max_position_embeddings=512,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def snapshots(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """Version 0, and version 1 after a step of a high learning rate."""
    from rollout.trainer.training_unit import TrainingUnit

    made = Snapshots(tmp_path_factory.mktemp("snapshots"))
    unit = TrainingUnit(model_dir, TrainingSettings(temperature=1.0, learning_rate=0.01))
    unit.publish(made)
    ids = np.arange(10, 16)
    samples = [
        Sample(ids, ids + shift, np.full(6, -5.6, np.float32), "stop", good)
        for shift, good in ((0, 1.0), (20, 0.0))
    ]
    unit.train([SampleGroup(0, 0, tuple(samples), 0)])
    unit.publish(made)
    return made


@pytest.fixture(scope="session")
def one_engine() -> Any:
    """A process holds one."""
    from rollout.trainer.engines.vllm import VllmEngine

    return VllmEngine(SLOTS, ROOM, TEMPERATURE, seed=0)


@pytest.fixture
def engine(one_engine: Any, snapshots: Snapshots) -> Iterator[Any]:
    """On version 0, empty."""
    one_engine.load(0, snapshots.path(0))
    yield one_engine
    one_engine.put_down()


def draft(prompt: Sequence[int], limit: int, sample: int = 0) -> Draft:
    return Draft(0, sample, tuple(prompt), limit)


def fresh_logprobs(path: Path, drafts: Sequence[Draft]) -> list[float]:
    import torch
    from transformers import AutoModelForCausalLM

    from rollout.trainer.policy import lay_out, score

    empty, model = np.empty(0), AutoModelForCausalLM.from_pretrained(path).eval()
    samples = [
        Sample(np.array(d.prompt_ids), np.array(d.token_ids), empty, "stop", 0.0) for d in drafts
    ]
    with torch.no_grad():
        logprob_t, _ = score(model, lay_out(samples, torch.device("cpu")), TEMPERATURE)
    values: list[float] = logprob_t.tolist()
    return values


def finish(engine: Any, drafts: Sequence[Draft]) -> None:
    through = [d for d in drafts if d.end is not None or len(d.token_ids) >= d.limit]
    while len(through) < len(drafts):
        through += engine.decode(4)


def test_recorded_logprobs_are_those_of_a_fresh_pass(engine: Any, snapshots: Snapshots) -> None:
    """Responses of all lengths, put down and taken up again."""
    rng = np.random.default_rng(0)
    drafts = [
        draft(rng.integers(2, 258, rng.integers(1, 9)).tolist(), int(rng.integers(1, 40)), n)
        for n in range(SLOTS)
    ]
    end = model_end(snapshots)
    engine.add(drafts)
    through = engine.decode(6)
    carried = engine.put_down()
    assert sorted(map(id, through + carried)) == sorted(map(id, drafts))
    assert engine.put_down() == [] and carried
    engine.add(carried)
    finish(engine, drafts)
    for d in drafts:
        assert len(d.token_ids) == len(d.logprobs) == len(d.versions) <= d.limit
        assert d.end == ("stop" if d.token_ids[-1] == end else None)
        assert end not in d.token_ids[:-1]
        assert d.end is not None or len(d.token_ids) == d.limit
    recorded = [value for d in drafts for value in d.logprobs]
    assert recorded == pytest.approx(fresh_logprobs(snapshots.path(0), drafts), abs=1e-4)


def model_end(snapshots: Snapshots) -> int:
    return int(json.loads((snapshots.path(0) / "config.json").read_text())["eos_token_id"])


def test_tokens_are_drawn_with_their_probability(engine: Any) -> None:
    """The likeliest token comes as often as its recorded log-probability says."""
    drafts = [draft([40, 41], 1, n) for n in range(20 * SLOTS)]
    for start in range(0, len(drafts), SLOTS):
        engine.add(drafts[start : start + SLOTS])
        finish(engine, drafts[start : start + SLOTS])
    tokens = np.array([d.token_ids[0] for d in drafts])
    recorded = np.array([d.logprobs[0] for d in drafts])
    likely = np.bincount(tokens).argmax()
    share, probability = (tokens == likely).mean(), np.exp(recorded[tokens == likely][0])
    assert abs(share - probability) < 4 * np.sqrt(probability / len(drafts))


def test_a_response_goes_on_under_other_weights(engine: Any, snapshots: Snapshots) -> None:
    """Nothing is left of what the old weights had made of its prompt, longer than a cache block."""
    drafts = [draft([50 + n % 100 for n in range(400)], 40), draft([60], 20)]
    engine.add(drafts)
    engine.decode(3)
    carried = engine.put_down()
    held = [len(d.token_ids) for d in drafts]
    engine.load(1, snapshots.path(1))
    assert engine.version == 1
    engine.add(carried)
    finish(engine, drafts)
    for d, before in zip(drafts, held, strict=True):
        assert d.versions == [0] * before + [1] * (len(d.token_ids) - before)
        old = fresh_logprobs(snapshots.path(0), [d])
        new = fresh_logprobs(snapshots.path(1), [d])
        assert d.logprobs == pytest.approx(old[:before] + new[before:], abs=1e-4)
        assert np.abs(np.subtract(old[before:], new[before:])).max() > 0.01


def test_a_damaged_snapshot_is_refused_and_the_old_weights_stay(
    engine: Any, tmp_path: Path
) -> None:
    broken = Snapshots(tmp_path)
    with broken.new(2) as folder:
        (folder / "model.safetensors").write_bytes(b"weights")
    (broken.path(2) / "model.safetensors").write_bytes(b"weightz")
    with pytest.raises(AspError, match="damaged"):
        engine.load(2, broken.path(2))
    assert engine.version == 0
    one = draft([2], 1)
    engine.add([one])
    finish(engine, [one])


def even(responses: Sequence[str], row: Mapping[str, Any]) -> list[float]:
    """1 where the length in characters is even."""
    return [float(len(response) % 2 == 0) for response in responses]


def test_a_schedule_is_trained_on(asp_process: Asp, model_dir: Path, tmp_path: Path) -> None:
    """In processes of their own: vLLM does not start where numba was imported before it."""
    prompts = [f"count to {number}" for number in range(24)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(json.dumps({"prompt": p}) for p in prompts))
    pl.DataFrame(
        {
            "prompt_id": range(24), "prompt_hash": [prompt_hash(prompt) for prompt in prompts],
            "mu": 3.0, "sigma": 0.9, "cap": 64, "sample_sigma": 0.6,
        }
    ).write_parquet(tmp_path / "lengths")  # fmt: skip
    place = tmp_path / "run"
    train = (
        "train", tmp_path / "schedule", "--engine", "vllm", "--prompts", tmp_path / "prompts.jsonl",
        "--model", model_dir, "--reward", f"{__name__}:even", "--slots", 16,
        "--max-response-tokens", 64, "--learning-rate", 1e-3, "-o", place,
    )  # fmt: skip
    for command in (
        ("partition", tmp_path / "lengths", "--batch-size", 2, "--samples-per-prompt", 4,
         "-o", tmp_path / "minibatches"),
        ("balance", tmp_path / "minibatches", "--group-size", 1, "-o", tmp_path / "schedule"),
        (*train, "--max-lag", 2),
    ):  # fmt: skip
        outcome = asp_process(*command)
        assert outcome.code == 0, outcome.stderr
    metrics = pl.read_parquet(place / "metrics.parquet")
    assert metrics["samples"].sum() == 96 and metrics["num_masked"].sum() == 0
    assert metrics["max_lag"].max() <= 2
    # About 1: what vLLM recorded is what the trainer computes, but for what it has learnt since.
    assert metrics["ratio_mean"].is_between(0.8, 1.25).all()
    rollouts = pl.read_parquet(place / "rollouts.parquet")
    assert rollouts.group_by("prompt_id").len()["len"].to_list() == [4] * 24
    for flag, value, words in (
        ("--actors", 2, "--actors 2: a process holds one engine of vLLM; give more --units"),
        ("--max-response-tokens", 510, "more than the 512 that the model was made for"),
    ):
        outcome = asp_process(*train, flag, value, "--force")
        assert outcome.code == 1 and words in outcome.only_line
