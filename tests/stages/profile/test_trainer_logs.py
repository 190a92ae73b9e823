"""Logs that trainers wrote: TRL's by its own GRPOTrainer, verl's as its source writes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Asp = Callable[..., Any]
QUESTIONS = [f"What is {n} plus {n}?" for n in range(6)]
CAP = 8


@pytest.fixture
def prompts_path(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    rows = ({"prompt": [{"role": "user", "content": q}], "answer": "7"} for q in QUESTIONS)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def trl_logs(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two generation batches of 2 prompts x 4 samples, two optimiser steps and files each."""
    pytest.importorskip("trl")
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    folder = tmp_path_factory.mktemp("trl")
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_model),
        processing_class=AutoTokenizer.from_pretrained(tiny_model),
        reward_funcs=lambda completions, **_: [float(len(str(c))) for c in completions],
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": q}]} for q in QUESTIONS]
        ),
        args=GRPOConfig(
            output_dir=str(folder), per_device_train_batch_size=8, num_generations=4,
            num_iterations=2, max_completion_length=CAP, max_steps=4, logging_steps=1,
            use_cpu=True, bf16=False, gradient_checkpointing=False, shuffle_dataset=False,
            log_completions=True, num_completions_to_print=0, report_to="none",
            save_strategy="no", disable_tqdm=True,
        ),
    )  # fmt: skip
    trainer.train()
    return folder / "completions"


def test_completions_of_trl(
    asp: Asp, trl_logs: Path, tiny_model: Path, prompts_path: Path, tmp_path: Path
) -> None:
    assert len(list(trl_logs.iterdir())) == 4
    outcome = asp(
        "profile", prompts_path, "--rollouts", trl_logs, "--tokenizer", tiny_model,
        "--rollouts-model", "policy", "--max-response-tokens", CAP, "-o", tmp_path / "p.parquet",
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    assert "read as a log of trl" in outcome.stderr
    assert "16 responses were logged again at a later step" in outcome.stderr
    frame = pl.read_parquet(tmp_path / "p.parquet")
    samples = frame.group_by("prompt_id", "policy_version", maintain_order=True).len()
    assert samples.rows() == [(0, 0, 4), (1, 0, 4), (2, 2, 4), (3, 2, 4)]
    assert frame["model"].unique().to_list() == ["policy"]
    # Each length is that of the text in the log, and of its end token where it was not cut.
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    logged = pl.concat(
        pl.read_parquet(trl_logs / f"completions_{step:05d}.parquet") for step in (1, 3)
    )
    lengths = [
        len(tokenizer(c[0]["content"], add_special_tokens=False)["input_ids"])
        for c in logged["completion"]
    ]
    expected = [n + 1 if n < CAP else n for n in lengths]
    assert frame["response_tokens"].to_list() == expected
    reasons = ["length" if n >= CAP else "stop" for n in expected]
    assert frame["finish_reason"].to_list() == reasons


def test_one_file_of_trl_without_a_tokenizer_is_told(
    asp: Asp, trl_logs: Path, prompts_path: Path, tmp_path: Path
) -> None:
    file = trl_logs / "completions_00001.parquet"
    outcome = asp("profile", prompts_path, "--rollouts", file, "-o", tmp_path / "p.parquet")
    assert outcome.code == 1
    assert "give --tokenizer DIR_OR_NAME to count it" in outcome.only_line
    assert not (tmp_path / "p.parquet").exists()


def verl_logs(folder: Path, tiny_model: Path) -> dict[str, list[int]]:
    """Write `<step>.jsonl` as verl does from token ids; return the true lengths by question.

    Like `_log_rollout_data` in verl/trainer/ppo/ray_trainer.py: prompts, padded on the left, and
    responses, padded on the right, are decoded without special tokens.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    words = ["one", " two", " plus", " Add", "."]
    lengths: dict[str, list[int]] = {}
    folder.mkdir()
    for step in (1, 2, 10):
        entries = []
        for number, question in enumerate(QUESTIONS[:4]):
            ids = tokenizer.apply_chat_template(
                [{"role": "user", "content": question}],
                add_generation_prompt=True,
                return_dict=False,
            )
            for sample in range(2):
                text = "".join(words[(number + sample + n) % 5] for n in range(1 + step + sample))
                response = tokenizer(text, add_special_tokens=False)["input_ids"]
                response = [*response, tokenizer.eos_token_id][:CAP]
                lengths.setdefault(question, []).append(len(response))
                pad = tokenizer.pad_token_id
                entries.append(
                    {
                        "input": tokenizer.decode([pad] * 5 + ids, skip_special_tokens=True),
                        "output": tokenizer.decode([*response, pad], skip_special_tokens=True),
                        "gts": "7",
                        "score": 0.0,
                        "step": step,
                        "uid": f"{step}_{number}_{sample}",
                    }
                )
        lines = (json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        (folder / f"{step}.jsonl").write_text("".join(lines))
    return lengths


def test_rollout_data_of_verl(
    asp: Asp, tiny_model: Path, prompts_path: Path, tmp_path: Path
) -> None:
    lengths = verl_logs(tmp_path / "logs", tiny_model)
    outcome = asp(
        "profile", prompts_path, "--rollouts", tmp_path / "logs", "--tokenizer", tiny_model,
        "--max-response-tokens", CAP, "-o", tmp_path / "p.parquet",
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    frame = pl.read_parquet(tmp_path / "p.parquet")
    found = frame.group_by("prompt_id", maintain_order=True).agg("response_tokens")
    assert dict(found.iter_rows()) == {n: lengths[QUESTIONS[n]] for n in range(4)}
    assert frame["policy_version"].to_list() == [0, 0, 1, 1, 9, 9] * 4
    assert frame["sample_index"].to_list() == list(range(6)) * 4
    assert frame["tokens_from"].unique().to_list() == ["text"]
    is_capped = (frame["response_tokens"] == CAP).to_list()
    assert (frame["finish_reason"] == "length").to_list() == is_capped
    assert 0 < sum(is_capped) < len(frame)


def test_verl_with_lengths_of_its_own_needs_no_tokenizer(
    asp: Asp, tiny_model: Path, prompts_path: Path, tmp_path: Path
) -> None:
    verl_logs(tmp_path / "logs", tiny_model)
    counted = tmp_path / "counted.jsonl"
    rows = (tmp_path / "logs" / "1.jsonl").read_text().splitlines()
    counted.write_text("".join(json.dumps(json.loads(r) | {"length": 5}) + "\n" for r in rows))
    flags = ("--rollouts", counted, "--rollouts-tokens-column", "length")
    outcome = asp("profile", prompts_path, *flags, "-o", tmp_path / "p.parquet")
    assert outcome.code == 0, outcome.stderr
    frame = pl.read_parquet(tmp_path / "p.parquet")
    assert frame["response_tokens"].to_list() == [5] * 8
    assert frame["tokens_from"].unique().to_list() == ["count"]


def test_verl_in_a_template_that_does_not_show_is_told_what_is_missing(
    asp: Asp, tiny_model: Path, prompts_path: Path, tmp_path: Path
) -> None:
    verl_logs(tmp_path / "logs", tiny_model)
    one = tmp_path / "one.jsonl"
    row = json.loads((tmp_path / "logs" / "1.jsonl").read_text().splitlines()[0])
    others = ({"input": f"user\nOf {n}?\n", "output": "", "n": n} for n in range(2))
    one.write_text("".join(json.dumps(r | {"n": 5}) + "\n" for r in (row, *others)))
    flags = ("--rollouts", one, "--rollouts-tokens-column", "n", "-o", tmp_path / "p.parquet")
    outcome = asp("profile", prompts_path, *flags)
    assert outcome.code == 1
    assert "none of its 3 responses (3 different prompts)" in outcome.stderr
    assert "give the --tokenizer of that training" in outcome.stderr
    outcome = asp("profile", prompts_path, *flags, "--tokenizer", tiny_model)
    assert outcome.code == 0, outcome.stderr
    assert "one of these prompts is 'user Of 0?'" in outcome.stderr.replace("\\n", " ")
    assert pl.read_parquet(tmp_path / "p.parquet")["response_tokens"].to_list() == [5]
