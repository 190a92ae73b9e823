"""The prompt file in batches: each prompt once, whatever the batch and the format."""

import json
import pickle
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.tables.errors import AspError
from stages.tables.prompt_stream import PromptSource
from stages.tables.prompt_survey import PromptColumns, open_prompts

COLUMNS = PromptColumns(has_tokens=True, kept=("level", "score"))
Rows = list[dict[str, object]]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "prompt": st.text("ab ", min_size=1, max_size=4).map("p".__add__),
            "domain": st.sampled_from(["math", None]),
            "prompt_tokens": st.one_of(st.none(), st.integers(0, 9)),
            "level": st.sampled_from(["easy", "hard", None]),
            "score": st.one_of(st.integers(0, 3), st.sampled_from([0.5, None])),
        }
    ),
    min_size=1,
    max_size=25,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prompts")


def write(folder: Path, rows: Rows) -> list[str]:
    lines, table = folder / "p.jsonl", folder / "p.parquet"
    lines.write_text("\n\n".join(map(json.dumps, rows)))
    schema = {"prompt_tokens": pl.Int64, "score": pl.Float64, "level": pl.String}
    pl.DataFrame(rows, schema_overrides=schema, strict=False).write_parquet(table, row_group_size=4)
    return [str(lines), str(table)]


@settings(max_examples=20)
@given(ROWS, st.integers(1, 30))
def test_batches_of_any_size_hold_each_prompt_once(folder: Path, rows: Rows, size: int) -> None:
    for path in write(folder, rows):
        with open_prompts(path, COLUMNS, num_rows=size) as source:
            batches = list(source.batches(size))
            odd = list(range(0, len(batches), 2))
            picked = list(source.batches(size, odd))
            sample = source.sample(3)
        frame = pl.concat(batch.frame for batch in batches)
        assert source.num_prompts == len(rows) == len(frame)
        assert frame["prompt_id"].to_list() == list(range(len(rows)))
        for column in ("prompt", "domain", "prompt_tokens", "level", "score"):
            assert frame[column].to_list() == [row[column] for row in rows]
        assert [prompt for batch in batches for prompt in batch.raw] == frame["prompt"].to_list()
        assert all(a.frame.equals(batches[n].frame) for a, n in zip(picked, odd, strict=True))
        assert sample == [row["prompt"] for row in rows[:: -(-len(rows) // 3)]]


def test_a_source_can_be_sent_to_another_process(folder: Path) -> None:
    path = write(folder, [{"prompt": "a", "level": 1, "score": True}])[0]
    with open_prompts(path, COLUMNS) as source:
        sent: PromptSource = pickle.loads(pickle.dumps(source))
        (batch,) = sent.batches()
    assert batch.frame.row(0)[4:] == (None, 1, True)


@pytest.mark.parametrize("value", [[1], {"a": 1}, 2**70])
def test_a_kept_column_of_no_plain_type_is_one_line(tmp_path: Path, value: object) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"prompt": "a", "level": value}))
    with (
        pytest.raises(AspError, match=r"'level' \(--keep-column\) is not of one plain type"),
        open_prompts(str(path), PromptColumns(kept=("level",))),
    ):
        pass


def test_a_kept_column_must_be_there(tmp_path: Path) -> None:
    for path in write(tmp_path, [{"prompt": "a", "score": 1}]):
        with (
            pytest.raises(AspError, match=r"no column 'nowhere' \(--keep-column\); it has prompt"),
            open_prompts(path, PromptColumns(kept=("nowhere",))),
        ):
            pass


def test_prompt_tokens_that_are_no_counts_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a", "prompt_tokens": 3.0}\n{"prompt": "b", "prompt_tokens": [7]}')
    with open_prompts(str(path), PromptColumns(has_tokens=True)) as source:
        (batch,) = source.batches()
    assert batch.frame["prompt_tokens"].to_list() == [None, None]
    assert "'prompt_tokens' is left out: 1 values are no whole numbers" in caplog.text
