"""The user's rows in another order: every value, type and footer key as it was."""

import datetime
import decimal
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.emit.rows import hash_prompts, open_rows
from stages.emit.rows_jsonl import JsonLines
from stages.emit.rows_parquet import ParquetRows
from stages.tables.errors import AspError
from stages.tables.prompt_survey import read_prompts
from stages.tables.prompts import prompt_hash

ORDER = np.array([4, 3, 0, 1, 2, 0])  # five rows, one of them twice
SMALL = 100  # bytes a bucket: a few rows


def awkward_table() -> pa.Table:
    """Five rows of what prompt files hold, and of what is easily lost on the way."""
    messages = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    ordered = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, None, 1], pa.int8()), pa.array(["low", "high"]), ordered=True
    )
    nested = pa.StructArray.from_arrays([pa.array([*"qrqrs"]).dictionary_encode()], ["k"])
    mapping = pa.map_(pa.string(), pa.int32())
    instant = datetime.datetime(2020, 1, 1, 12, 30, 0, 123456)
    columns: dict[str, Any] = {
        "prompt": pa.array([[{"role": "user", "content": f"né {i}"}] for i in range(5)], messages),
        "extra_info": pa.array([{"index": i, "tags": ["a", None], "t": None} for i in range(5)]),
        "lists": pa.array([[[1], None, []], None, [], [[None]], [[2, 3]]]),
        "dictionary": pa.array(["a", None, "b", "a", "c"]).dictionary_encode(),
        "ordered": ordered,
        "nested_dictionary": nested,
        "decimal": pa.array([decimal.Decimal("1.23")] * 5, pa.decimal128(20, 2)),
        "wide_decimal": pa.array([decimal.Decimal(10) ** 50] * 5, pa.decimal256(60, 2)),
        "big": pa.array([2**64 - 1, 0, 1, None, 5], pa.uint64()),
        "negative": pa.array([-(2**63), 2**63 - 1, 0, None, 2**53 + 1]),
        "image": pa.array([{"bytes": bytes([i, 0, 255]) * 9, "path": None} for i in range(5)]),
        "binary": pa.array([b"\xff\x00", None, b"", b"1", b"2"]),
        "map": pa.array([[("a", 1)], None, [], [("b", 2)], [("c", None)]], mapping),
        "vector": pa.array([[1.5, 2.5]] * 5, pa.list_(pa.float32(), 2)),
        "instant": pa.array([instant, None] * 2 + [instant], pa.timestamp("ns", "Europe/Zurich")),
        "duration": pa.array([1, None, 2, 3, 4], pa.duration("us")),
        "time": pa.array([1, None, 2, 3, 4], pa.time32("ms")),
        "nothing": pa.nulls(5),
        "large": pa.array(["a", None, "", "é", "z"], pa.large_string()),
        "view": pa.array(["a", None, "", "é", "more than twelve bytes"], pa.string_view()),
        "half": pa.array([1.0, None, 2.0, 3.0, float("nan")], pa.float16()),
        "fixed": pa.array([b"abcd"] * 5, pa.binary(4)),
        "required": pa.array([1, 2, 3, 4, 5]),
    }  # fmt: skip
    table = pa.table(columns)
    required = pa.field("required", pa.int64(), nullable=False, metadata={"unit": "none"})
    schema = table.schema.set(table.schema.get_field_index("required"), required)
    features = {"info": {"features": {"image": {"_type": "Image"}}}}
    return table.cast(schema).replace_schema_metadata(
        {"huggingface": json.dumps(features), "note": "né"}
    )


def values_of(path: Path, column: str) -> list[Any]:
    """A row group at a time: Arrow cannot join nested dictionaries."""
    with pq.ParquetFile(path) as file:
        groups = [file.read_row_group(n, columns=[column]) for n in range(file.num_row_groups)]
    return [repr(value) for group in groups for value in group[column].to_pylist()]


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("awkward") / "p.parquet"
    pq.write_table(awkward_table(), path, row_group_size=2, compression="zstd")
    return path


@pytest.mark.parametrize("bucket_bytes", [SMALL, 2**20])
def test_awkward_columns_come_back_as_they_were(
    awkward: Path, tmp_path: Path, bucket_bytes: int
) -> None:
    with open(awkward, "rb") as source:
        ParquetRows("p", "", source, "prompt", bucket_bytes).write(ORDER, tmp_path)
    copy = tmp_path / "prompts.parquet"
    with pq.ParquetFile(awkward) as before, pq.ParquetFile(copy) as after:
        assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
        assert after.schema.equals(before.schema)
        assert after.metadata.row_group(0).column(0).compression == "ZSTD"
        assert (after.num_row_groups > 1) == (bucket_bytes == SMALL)
        columns = before.schema_arrow.names
    for column in columns:
        given_values = values_of(awkward, column)
        assert values_of(copy, column) == [given_values[row] for row in ORDER], column
    assert list(tmp_path.iterdir()) == [copy]


@pytest.mark.parametrize("bucket_bytes", [SMALL, 2**20])
def test_columns_are_added_after_those_of_the_user(
    awkward: Path, tmp_path: Path, bucket_bytes: int
) -> None:
    added = pl.DataFrame({"asp_prompt_id": ORDER, "asp_instance": [None, 1, None, 3, 4, 5]})
    with open(awkward, "rb") as source:
        rows = ParquetRows("p", "", source, "prompt", bucket_bytes)
        rows.write(ORDER, tmp_path, added)
    copy = tmp_path / "prompts.parquet"
    with pq.ParquetFile(awkward) as before, pq.ParquetFile(copy) as after:
        names = before.schema_arrow.names
        assert after.schema_arrow.names == [*names, *added.columns]
        for name in names:
            kept, given_field = after.schema_arrow.field(name), before.schema_arrow.field(name)
            assert kept.equals(given_field, check_metadata=True)
        assert after.schema_arrow.metadata == before.schema_arrow.metadata
    for name in names:
        given_values = values_of(awkward, name)
        assert values_of(copy, name) == [given_values[row] for row in ORDER], name
    assert values_of(copy, "asp_prompt_id") == [repr(int(row)) for row in ORDER]
    assert values_of(copy, "asp_instance") == ["None", "1", "None", "3", "4", "5"]


def test_datasets_reads_added_columns_beside_the_features_that_the_user_noted(
    tmp_path: Path,
) -> None:
    """Its footer names features of the user's columns alone."""
    datasets = pytest.importorskip("datasets")
    own = datasets.Dataset.from_dict({"prompt": ["a", "b"], "label": [0, 1]}).cast_column(
        "label", datasets.ClassLabel(names=["no", "yes"])
    )
    own.to_parquet(str(tmp_path / "p.parquet"))
    with open_rows(str(tmp_path / "p.parquet"), "prompt") as rows:
        rows.write(np.array([1, 0]), tmp_path, pl.DataFrame({"asp_epoch": [0, 0]}))
    path, cache = str(tmp_path / "prompts.parquet"), str(tmp_path / "cache")
    loaded = datasets.load_dataset("parquet", data_files=path, split="train", cache_dir=cache)
    assert loaded["label"][:] == [1, 0] and loaded["asp_epoch"][:] == [0, 0]
    assert loaded.features["label"].names == ["no", "yes"]


def test_keys_that_stand_in_the_footer_alone_are_kept(tmp_path: Path) -> None:
    """Polars writes them there, not into the Arrow schema."""
    source = tmp_path / "p.parquet"
    frame = pl.DataFrame({"prompt": ["a", "b"], "c": pl.Series(["x", "y"], dtype=pl.Categorical)})
    frame.write_parquet(source, metadata={"huggingface": "{}", "asp": "mine"})
    with open_rows(str(source), "prompt") as rows:
        rows.write(np.array([1, 0]), tmp_path)
    metadata = pl.read_parquet_metadata(tmp_path / "prompts.parquet")
    assert (metadata["huggingface"], metadata["asp"]) == ("{}", "mine")
    assert pl.read_parquet(tmp_path / "prompts.parquet").equals(frame.reverse())
    assert pl.read_parquet_schema(tmp_path / "prompts.parquet") == frame.schema


def test_a_frame_with_a_pandas_index_reads_back_as_one(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"prompt": [*"abcd"], "n": [1, 2, 3, 4]}, index=[9, 7, 5, 3])
    frame.to_parquet(tmp_path / "p.parquet")
    with open_rows(str(tmp_path / "p.parquet"), "prompt") as rows:
        rows.write(np.array([2, 0, 3, 1]), tmp_path)
    back = pandas.read_parquet(tmp_path / "prompts.parquet")
    pandas.testing.assert_frame_equal(back, frame.iloc[[2, 0, 3, 1]])


@given(
    order=st.lists(st.integers(0, 40), min_size=1, max_size=120),
    group_size=st.integers(1, 41),
    bucket_bytes=st.sampled_from([1, 64, 1000, 2**20]),
)
def test_any_order_with_repeats_over_any_row_groups(
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    group_size: int,
    bucket_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    buffer = BytesIO()
    texts = [f"prompt {i}" * (i % 5 + 1) for i in range(41)]
    pq.write_table(pa.table({"prompt": texts, "i": range(41)}), buffer, row_group_size=group_size)
    buffer.seek(0)
    rows = ParquetRows("p", "", buffer, "prompt", bucket_bytes)
    rows.write(np.array(order), folder)
    copy = pq.read_table(folder / "prompts.parquet")
    assert copy["i"].to_pylist() == order
    assert copy["prompt"].to_pylist() == [texts[i] for i in order]
    assert [path.name for path in folder.iterdir()] == ["prompts.parquet"]


def test_json_lines_are_moved_byte_for_byte(tmp_path: Path) -> None:
    lines = [
        b'{"prompt": "a",  "big": 123456789012345678901234567890, "f": 1.10}\r\n',
        '{"f":1e5,"prompt":"né 🎲","x":{"b":[],"a":null}}\n'.encode(),
        b'{"prompt": "\\u00e9\\ud83d\\ude00", "mixed": ["1", 2]}',
    ]
    source = tmp_path / "p.jsonl"
    source.write_bytes(lines[0] + b"\n  \n" + lines[1] + lines[2])
    with open_rows(str(source), "prompt") as rows:
        assert len(rows) == 3 and rows.has_text_prompts
        rows.write(np.array([2, 0, 1, 2]), tmp_path)
    last = lines[2] + b"\n"
    written = (tmp_path / "prompts.jsonl").read_bytes()
    assert written == last + lines[0] + lines[1] + last


def test_keys_are_added_to_a_json_line_before_its_brace(tmp_path: Path) -> None:
    lines = [b'{"prompt": "a", "big": 123456789012345678901234567890}\r\n', b'{"prompt": "}" } ']
    (tmp_path / "p.jsonl").write_bytes(b"".join(lines))
    added = pl.DataFrame({"asp_epoch": [0, 1], "asp_instance": [None, 2]})
    with open_rows(str(tmp_path / "p.jsonl"), "prompt") as rows:
        assert set(rows.columns()) == {"prompt", "big"}
        rows.write(np.array([1, 0]), tmp_path, added)
    assert (tmp_path / "prompts.jsonl").read_bytes().split(b"\n") == [
        b'{"prompt": "}" , "asp_epoch": 0, "asp_instance": null} ',
        b'{"prompt": "a", "big": 123456789012345678901234567890, "asp_epoch": 1, '
        b'"asp_instance": 2}\r',
        b"",
    ]


MESSAGES = [
    [{"role": "system", "content": "né"}, {"role": "user", "content": "1 + 1?"}],
    [{"role": "user", "content": None}, {"role": "user", "content": "x\ny"}],
]
PARTS = [
    [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]}],
    [{"role": "user", "content": [{"type": "text", "text": "and"}]}],
]


@pytest.mark.parametrize("prompts", [["a", "é 🎲"], MESSAGES, PARTS], ids=["text", "chat", "parts"])
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_hashes_are_those_of_the_stages_before(
    prompts: list[Any], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"p.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table({"prompt": prompts}), path)
    else:
        path.write_text("\n".join(json.dumps({"prompt": p, "n": 1}) for p in prompts))
    with open_rows(str(path), "prompt") as rows:
        assert rows.has_text_prompts == isinstance(prompts[0], str)
        hashes = hash_prompts(rows, "prompt")
    assert hashes == read_prompts(str(path)).frame["prompt_hash"].to_list()


@pytest.mark.parametrize(
    "prompts",
    [
        pl.Series(["a", "b"], dtype=pl.Categorical),
        pl.Series([[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]),
    ],
    ids=["categorical", "messages"],
)
def test_hashes_of_a_file_that_polars_wrote(prompts: pl.Series, tmp_path: Path) -> None:
    pl.DataFrame({"prompt": prompts}).write_parquet(tmp_path / "p.parquet")
    with open_rows(str(tmp_path / "p.parquet"), "prompt") as rows:
        hashes = hash_prompts(rows, "prompt")
    assert hashes == read_prompts(str(tmp_path / "p.parquet")).frame["prompt_hash"].to_list()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "not a Parquet file: it is empty"),
        (lambda data: b"a,b\n1,2\n", "it does not start as one"),
        (lambda data: data[:-50], "damaged or cut short"),
        (lambda data: data[:4] + b"\0" * 900 + data[904:], "damaged or cut short"),
        (lambda data: b'{"prompt": "a"}\n{"prompt": \n', "line 2 is not JSON"),
        (lambda data: b'{"prompt": "a"}\n["b"]\n', "line 2 is not a JSON object"),
        (lambda data: b'{"question": "a"}\n', "no column 'prompt' .*has question"),
        (lambda data: b'{"prompt": "a"}\n{"prompt": " "}\n', "1 prompts are null, empty.* row 1 "),
        (lambda data: b'{"prompt": "a"}\n{"x": 1}\n', "1 prompts are null, empty.* row 1 "),
    ],
)
def test_a_bad_file_is_one_line(
    awkward: Path, tmp_path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(damage(awkward.read_bytes()))
    with pytest.raises(AspError, match=message), open_rows(str(bad), "prompt") as rows:
        hash_prompts(rows, "prompt")
        rows.write(np.arange(len(rows)), tmp_path)


def test_other_columns_are_named_where_the_prompt_is_missing(awkward: Path) -> None:
    refused = pytest.raises(AspError, match=r"no column 'question' .*it has prompt, extra_info")
    with refused, open_rows(str(awkward), "question"):
        pass


def test_no_rows_no_file_a_folder(tmp_path: Path) -> None:
    pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), tmp_path / "none.parquet")
    for path, message in {
        "none.parquet": "zero rows",
        "absent.parquet": "cannot be read",
        ".": "is a directory",
    }.items():
        with pytest.raises(AspError, match=message), open_rows(str(tmp_path / path), "prompt"):
            pass


def test_json_lines_hold_no_rows_in_memory() -> None:
    """8 bytes a row, and nothing of a text prompt."""
    lines = b'{"prompt": "' + b"x" * 1000 + b'"}\n'
    rows = JsonLines("p", "", BytesIO(lines * 1000), "prompt")
    assert sum(len(str(prompt)) for prompt in rows.prompts()) == 1_000_000
    assert rows._starts.itemsize * len(rows._starts) == 8000


def test_a_byte_order_mark_does_not_move_with_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\n{"prompt": "b"}')
    with open_rows(str(tmp_path / "p"), "prompt") as rows:
        assert hash_prompts(rows, "prompt") == [prompt_hash("a"), prompt_hash("b")]
        rows.write(np.array([1, 0]), tmp_path)
    assert (tmp_path / "prompts.jsonl").read_bytes() == b'{"prompt": "b"}\n{"prompt": "a"}\n'


def test_text_that_is_not_utf8_and_columns_of_one_name(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    pq.write_table(pa.table({"prompt": bad}), tmp_path / "bad")
    texts = pa.array(["a"])
    pq.write_table(pa.table([texts, texts], names=["prompt", "prompt"]), tmp_path / "two")
    for name, message in {"bad": "Invalid UTF8", "two": "2 columns 'prompt'"}.items():
        with (
            pytest.raises(AspError, match=message),
            open_rows(str(tmp_path / name), "prompt") as rows,
        ):
            hash_prompts(rows, "prompt")


def test_json_nested_beyond_reason_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "p").write_text('{"prompt": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(AspError, match="line 1 is not JSON"), open_rows(str(tmp_path / "p"), "p"):
        pass
