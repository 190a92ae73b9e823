"""The user's prompts: text or messages, Parquet or JSONL, and everything that can be wrong."""

import json
import logging
from pathlib import Path

import polars as pl
import pytest

from stages.tables.errors import AspError
from stages.tables.prompt_survey import read_prompts
from stages.tables.prompts import canonical_text, parse_records, prompt_hash

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]


def test_canonical_text_by_hand() -> None:
    assert canonical_text("Why?") == "Why?"
    assert canonical_text(MESSAGES) == "system: Be brief.\nuser: Why?"
    assert canonical_text([{"content": "Why?"}]) == "user: Why?"
    assert canonical_text([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]) == (
        'user: [{"text": "Hi", "type": "text"}]'
    )
    assert canonical_text(3) is None
    assert canonical_text([{"role": "user"}]) is None


def test_the_hash_is_sixteen_digits_of_sha256() -> None:
    assert prompt_hash("") == "e3b0c44298fc1c14"
    assert prompt_hash("lone surrogate \ud800") == prompt_hash("lone surrogate \ud800")


def test_text_and_messages_parquet_and_jsonl_agree(tmp_path: Path) -> None:
    prompts = [[{"role": "user", "content": f"Question {i}: ü"}] for i in range(5)]
    pl.DataFrame({"prompt": prompts}).write_parquet(tmp_path / "p.parquet")
    lines = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
    (tmp_path / "p.jsonl").write_text("\n" + lines + "\n")
    frames = [read_prompts(str(tmp_path / name)).frame for name in ("p.parquet", "p.jsonl")]
    assert frames[0].equals(frames[1])
    assert frames[0]["prompt"][2] == "user: Question 2: ü"
    assert frames[0]["prompt_id"].to_list() == [0, 1, 2, 3, 4]


def test_json_values_of_mixed_type_do_not_matter(tmp_path: Path) -> None:
    rows = [
        {"prompt": "a", "answer": 1},
        {"prompt": "b", "answer": "x"},
        {"prompt": "c", "other": [1]},
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_prompts(str(tmp_path / "p.jsonl")).frame["prompt"].to_list() == ["a", "b", "c"]


def test_a_file_in_verls_layout_works_untouched(sample_data: Path) -> None:
    prompts = read_prompts(str(sample_data / "verl_prompts.parquet"))
    assert len(prompts.frame) == 128
    assert prompts.frame["prompt"][0].startswith("user: Natalia sold clips")
    assert prompts.raw[0][0]["role"] == "user"


def test_a_prompts_text_does_not_depend_on_its_neighbours(tmp_path: Path) -> None:
    alone, other = (
        [{"content": "Hi"}],
        [{"role": "user", "content": [{"type": "image", "url": "x"}]}],
    )
    for name, rows in (("alone", [alone]), ("both", [alone, other])):
        lines = "\n".join(json.dumps({"prompt": prompt}) for prompt in rows)
        (tmp_path / name).write_text(lines)
    texts = [read_prompts(str(tmp_path / name)).frame["prompt"][0] for name in ("alone", "both")]
    assert texts == ["user: Hi", "user: Hi"]


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        (["a", None, "c"], "1 prompts are neither text nor a list"),
        (["a", "", "  \n"], "2 prompts are empty, first in row 1, 2"),
        ([1, 2, 3], "3 prompts are neither text nor a list"),
        ([[], []], "2 prompts are empty"),
    ],
)
def test_prompts_that_cannot_be_used(tmp_path: Path, prompts: list[object], words: str) -> None:
    pl.DataFrame({"prompt": prompts}).write_parquet(tmp_path / "p.parquet")
    with pytest.raises(AspError, match=words):
        read_prompts(str(tmp_path / "p.parquet"))


def test_zero_rows_and_a_missing_column(tmp_path: Path) -> None:
    path = str(tmp_path / "p.parquet")
    pl.DataFrame({"prompt": []}, schema={"prompt": pl.String}).write_parquet(path)
    with pytest.raises(AspError, match="zero rows"):
        read_prompts(path)
    with pytest.raises(AspError, match=r"no column 'question' .* it has prompt"):
        read_prompts(path, "question")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "a"}\n{"prompt": \n', "line 2 is not JSON"),
        ('{"prompt": "a"}\n[1]\n', "line 2 is not a JSON object"),
    ],
)
def test_a_broken_line_is_numbered(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(AspError, match=words):
        read_prompts(str(tmp_path / "p.jsonl"))


def test_duplicates_are_kept_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl.DataFrame({"prompt": ["a", "b", "a", "a"]}).write_parquet(tmp_path / "p.parquet")
    monkeypatch.setattr(logging.getLogger("asp"), "propagate", True)
    prompts = read_prompts(str(tmp_path / "p.parquet"))
    assert len(prompts.frame) == 4
    assert "2 of 4 prompts repeat an earlier one" in caplog.text


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n{"prompt": "b"}')
    assert read_prompts(str(tmp_path / "p.jsonl")).frame["prompt"].to_list() == ["a", "b"]


def test_half_of_a_surrogate_pair_is_no_prompt_but_may_end_a_response(tmp_path: Path) -> None:
    line = json.dumps({"prompt": "a", "response": "cut \ud83d"}).encode()
    (tmp_path / "p.jsonl").write_bytes(line.replace(b'"a"', b'"\\ud800"'))
    with pytest.raises(AspError, match="1 prompts are no text: they hold half of a surrogate"):
        read_prompts(str(tmp_path / "p.jsonl"))
    assert parse_records("x", line)["response"].to_list() == ["cut ?"]


def test_json_nested_beyond_reason_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(AspError, match="line 1 is not JSON"):
        read_prompts(str(tmp_path / "p.jsonl"))


def test_domains_come_from_a_column_of_that_name_or_the_one_named(tmp_path: Path) -> None:
    path = str(tmp_path / "p.parquet")
    frame = {"prompt": ["a", "b"], "domain": ["math", None], "level": [3, 4]}
    pl.DataFrame(frame).write_parquet(path)
    assert read_prompts(path).frame["domain"].to_list() == ["math", None]
    assert read_prompts(path, domain_column="level").frame["domain"].to_list() == ["3", "4"]
    with pytest.raises(AspError, match=r"no column 'kind' \(--domain-column\); it has prompt"):
        read_prompts(path, domain_column="kind")


def test_domains_that_are_no_text(tmp_path: Path) -> None:
    """A column that happens to be called so is left; one that was named is refused."""
    path = str(tmp_path / "p.jsonl")
    Path(path).write_text('{"prompt": "a", "domain": {"x": 1}}\n{"prompt": "b"}\n')
    assert read_prompts(path).frame["domain"].to_list() == [None, None]
    with pytest.raises(AspError, match="1 values are lists or structures, first in row 0"):
        read_prompts(path, domain_column="domain")
