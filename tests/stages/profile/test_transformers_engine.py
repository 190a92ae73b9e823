"""The local engine with a tiny random model: lengths, ends, padding, seeds, the whole command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stages.profile.engine import Batch, Request, Sampling
from stages.tables.errors import AspError

PROMPTS: list[Any] = [
    "What is one?",
    [{"role": "system", "content": "Add."}, {"role": "user", "content": "What is one plus two?"}],
    "two",
    "What is one plus two? Add them. What is two plus two?",
]


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> Any:
    from stages.profile.transformers_engine import TransformersEngine

    return TransformersEngine(str(tiny_model))


def batch(prompts: list[Any], seed: int = 0, copies: int = 1) -> Batch:
    requests = [Request(i, p, s) for i, p in enumerate(prompts) for s in range(copies)]
    return Batch(seed, requests)


def by_hand(engine: Any, prompt: Any, temperature: float, cap: int) -> tuple[int, int, str]:
    """Prompt tokens, response tokens and end of one prompt: no batch, no padding, no cache."""
    import torch

    ids = engine._tokenizer.encode_prompt(prompt)
    num_prompt = len(ids)
    for made in range(1, cap + 1):
        with torch.inference_mode():
            logits = engine._model(torch.tensor([ids])).logits[0, -1]
        if temperature == 0:
            ids.append(int(logits.argmax()))
        else:
            ids.append(int(torch.multinomial((logits / temperature).softmax(0), 1)))
        if ids[-1] % 8 == 2:  # the end tokens of the tiny model
            return num_prompt, made, "stop"
    return num_prompt, cap, "length"


def test_greedy_lengths_are_those_of_plain_decoding(engine: Any) -> None:
    answers = engine.generate(batch(PROMPTS), Sampling(0, 24), lambda n: None)
    found = [(a.prompt_tokens, a.response_tokens, a.finish_reason) for a in answers]
    assert found == [by_hand(engine, prompt, 0, 24) for prompt in PROMPTS]
    assert {reason for *_, reason in found} == {"stop", "length"}  # both ends are tried


def test_a_cap_of_one_token(engine: Any) -> None:
    answers = engine.generate(batch(PROMPTS), Sampling(0, 1), lambda n: None)
    expected = [by_hand(engine, prompt, 0, 1) for prompt in PROMPTS]
    assert [(a.prompt_tokens, a.response_tokens, a.finish_reason) for a in answers] == expected


def test_sampling_is_plain_whatever_the_model_recommends(engine: Any) -> None:
    import torch

    for seed in range(8):
        (answer,) = engine.generate(batch(PROMPTS[:1], seed), Sampling(0.7, 40), lambda n: None)
        torch.manual_seed(seed)
        found = (answer.prompt_tokens, answer.response_tokens, answer.finish_reason)
        assert found == by_hand(engine, PROMPTS[0], 0.7, 40)


def test_sampling_follows_the_seed_and_the_cap(engine: Any) -> None:
    def lengths(seed: int) -> list[int]:
        answers = engine.generate(batch(PROMPTS, seed, 8), Sampling(1.0, 20), lambda n: None)
        for answer in answers:
            assert 1 <= answer.response_tokens <= 20
            assert answer.finish_reason == "stop" or answer.response_tokens == 20
        return [answer.response_tokens for answer in answers]

    assert lengths(1) == lengths(1) != lengths(2)
    assert len(set(lengths(1)[:8])) > 2  # samples of one prompt differ


def test_every_token_is_reported_and_times_grow(engine: Any) -> None:
    reported: list[int] = []
    answers = engine.generate(batch(PROMPTS, 3, 8), Sampling(1.0, 40), reported.append)
    assert sum(reported) == sum(answer.response_tokens for answer in answers)
    assert {answer.concurrency for answer in answers} == {32}
    ordered = sorted(answers, key=lambda answer: answer.response_tokens)
    times = [answer.latency_s for answer in ordered]
    assert times == sorted(times)
    assert 0 < ordered[0].ttft_s <= times[0]


def test_the_bare_text_where_no_template_is_wanted(tiny_model: Path) -> None:
    from stages.tokens.tokenizer import PromptTokenizer

    templated, bare = (PromptTokenizer(str(tiny_model), uses_template=t) for t in (True, False))
    ids = templated.encode_prompt("one")
    assert templated.tokenizer.decode(ids) == "<|start|>user\none<|end|>\n<|start|>assistant\n"
    assert templated.decode(ids) == "user\none\nassistant\n"
    assert templated.decode(ids, has_specials=True) == templated.tokenizer.decode(ids)
    assert bare.tokenizer.decode(bare.encode_prompt("one")) == "one"
    assert bare.tokenizer.decode(bare.encode_prompt(PROMPTS[1])) == (
        "system: Add.\nuser: What is one plus two?"
    )
    assert templated.digest() != bare.digest()
    assert templated.name == "tiny"


def test_the_whole_command(asp: Callable[..., Any], tiny_model: Path, tmp_path: Path) -> None:
    prompts, output = tmp_path / "p.parquet", tmp_path / "o.parquet"
    texts = [f"What is {n} plus {n}?" * (1 + n % 3) for n in range(12)]
    pl.DataFrame({"prompt": [[{"role": "user", "content": t}] for t in texts]}).write_parquet(
        prompts
    )
    flags = (
        "--model", tiny_model, "--num-prompts", 5, "--samples-per-prompt", 3,
        "--max-response-tokens", 16, "--batch-size", 4,
    )  # fmt: skip
    outcome = asp("profile", prompts, *flags, "-o", output)
    assert outcome.code == 0, outcome.stderr
    assert "15 responses to 5 of 12 prompts" in outcome.stderr
    frame = pl.read_parquet(output)
    assert frame.group_by("prompt_id").len()["len"].to_list() == [3] * 5
    assert frame["response_tokens"].is_between(1, 16).all()
    assert frame["latency_s"].min() > 0
    assert frame["model"].unique().to_list() == ["tiny"]
    assert [p.name for p in tmp_path.iterdir() if "journal" in p.name] == []
    piped = asp("profile", prompts, *flags, "-o", "-", "--quiet")
    assert piped.stderr == ""
    measured = ["latency_s", "ttft_s"]
    assert pl.read_parquet(piped.stdout).drop(measured).equals(frame.drop(measured))


@pytest.mark.parametrize("content", ["nothing", "tokenizer", "damaged"])
def test_a_directory_without_a_model_is_told_in_one_line(
    asp: Callable[..., Any], tiny_model: Path, tmp_path: Path, content: str
) -> None:
    prompts, model = tmp_path / "p.parquet", tmp_path / "model"
    pl.DataFrame({"prompt": ["a"]}).write_parquet(prompts)
    model.mkdir()
    for file in tiny_model.iterdir() if content != "nothing" else ():
        if content == "damaged" or file.name.startswith(("tokenizer", "chat")):
            (model / file.name).write_bytes(file.read_bytes())
    if content == "damaged":
        (model / "model.safetensors").write_bytes(b"\0" * 100)
    outcome = asp("profile", prompts, "--model", model, "-o", tmp_path / "o.parquet")
    assert outcome.code == 1
    assert outcome.only_line.startswith(f"asp: error: --model {model}: cannot be loaded as a")
    assert {p.name for p in tmp_path.iterdir()} == {"p.parquet", "model"}


def test_a_prompt_that_the_template_refuses_is_told(tiny_model: Path) -> None:
    from stages.tokens.tokenizer import PromptTokenizer

    tokenizer = PromptTokenizer(str(tiny_model))
    tokenizer.tokenizer.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(AspError, match="template of tiny refuses a prompt: no system role; it beg"):
        tokenizer.encode_prompt(PROMPTS[1])


def test_a_missing_directory_is_told_without_asking_the_hub(tmp_path: Path) -> None:
    from stages.tokens.tokenizer import PromptTokenizer

    with pytest.raises(AspError, match="no such directory"):
        PromptTokenizer(str(tmp_path / "nowhere"))
