"""`asp predict` on columns of the user's own, and on a Ray cluster."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.predictor.predict import PredictConfig
from stages.predictor.shards import BATCH, Worker
from stages.tables.prompt_survey import PromptColumns, open_prompts
from stages.tables.prompts import prompt_hash

Asp = Callable[..., object]
NUM_PROMPTS = 4500  # in three batches


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with predictor/, and prompts.parquet with level and prompt_tokens."""
    from asp_cli.main import main

    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    texts = [f"{('Explain', 'Give')[i % 2]} {i} {'now ' * (i % 7)}" for i in range(NUM_PROMPTS)]
    pl.DataFrame(
        {
            "prompt_id": range(110),
            "prompt_hash": map(prompt_hash, texts[:110]),
            "prompt": texts[:110],
            "model": "m",
            "sample_index": 0,
            "response_tokens": np.exp(rng.normal(5, 0.4, 110) - np.arange(110) % 2 * 3).astype(int),
            "finish_reason": "stop",
            "max_response_tokens": 2048,
        }
    ).write_parquet(folder / "profile.parquet")
    pl.DataFrame(
        {
            "prompt": texts,
            "level": [("easy", "hard", None)[i % 3] for i in range(NUM_PROMPTS)],
            "prompt_tokens": [len(text) for text in texts],
        }
    ).write_parquet(folder / "prompts.parquet", row_group_size=1000)
    assert main(["train-predictor", str(folder / "profile.parquet"), "-o", str(folder / "p")]) == 0
    return folder


@pytest.fixture(scope="module")
def lengths(made: Path) -> Path:
    """Predicted in one process."""
    from asp_cli.main import main

    out = made / "lengths.parquet"
    prompts, predictor = str(made / "prompts.parquet"), str(made / "p")
    arguments = ("--predictor", predictor, "--keep-column", "level", "-o", str(out))
    assert main(["predict", prompts, *arguments]) == 0
    return out


def test_every_prompt_is_predicted_once_with_the_columns_asked_for(
    made: Path, lengths: Path
) -> None:
    prompts, told = pl.read_parquet(made / "prompts.parquet"), pl.read_parquet(lengths)
    assert told["prompt_id"].to_list() == list(range(NUM_PROMPTS))
    assert told["prompt_hash"].to_list() == list(map(prompt_hash, prompts["prompt"]))
    assert told.select("level", "prompt_tokens").equals(prompts.select("level", "prompt_tokens"))
    assert "prompt" not in told.columns


def test_later_stages_use_what_was_kept(asp: Asp, lengths: Path, tmp_path: Path) -> None:
    some, minibatches, groups = (tmp_path / f"{name}.parquet" for name in "lmg")
    pl.read_parquet(lengths).head(300).write_parquet(some)
    cut = asp("partition", some, "--kv-tokens", 100_000, "-o", minibatches)
    assert cut.code == 0 and "prompt_tokens" not in cut.stderr
    assert asp("balance", minibatches, "--stratify", "level", "-o", groups).code == 0


def test_json_lines_tell_the_same(asp: Asp, made: Path, lengths: Path, tmp_path: Path) -> None:
    lines, out = tmp_path / "p.jsonl", tmp_path / "l.parquet"
    pl.read_parquet(made / "prompts.parquet").write_ndjson(lines)
    done = asp("predict", lines, "--predictor", made / "p", "--keep-column", "level", "-o", out)
    assert done.code == 0
    assert pl.read_parquet(out).equals(pl.read_parquet(lengths))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("prompt", "whose text is not copied into lengths"),
        ("mu", "has a column of that name of its own"),
        ("nowhere", "no column 'nowhere' (--keep-column)"),
    ],
)
def test_a_column_that_cannot_be_kept_is_one_line(
    asp: Asp, made: Path, tmp_path: Path, column: str, words: str
) -> None:
    done = asp(
        "predict", made / "prompts.parquet", "--predictor", made / "p", "-q",
        "--keep-column", column, "-o", tmp_path / "l.parquet",
    )  # fmt: skip
    assert done.code == 1 and words in done.only_line
    assert not any(tmp_path.iterdir())


def test_a_worker_makes_the_rows_of_one_process(made: Path, lengths: Path) -> None:
    columns = PromptColumns(has_tokens=True, kept=("level",))
    with open_prompts(str(made / "prompts.parquet"), columns) as prompts:
        worker = Worker(prompts, str(made / "p"), None, PredictConfig())
        tables = [worker({BATCH: np.array([n])}) for n in reversed(range(prompts.num_batches))]
    told = pl.concat(pl.DataFrame(table) for table in reversed(tables))
    expected = pl.read_parquet(lengths)
    shared = [column for column in expected.columns if column in told.columns]
    assert {"mu", "sigma", "expected_longest", "level", "prompt_tokens"} <= set(shared)
    assert (
        told.select(shared)
        .cast({"source": pl.String})
        .equals(expected.select(shared).cast({"source": pl.String}))
    )


def test_without_ray_it_says_how_to_install_it(made: Path, tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "asp_cli.main", "predict", made / "prompts.parquet", "--predictor",
         made / "p", "--ray", "local", "-q", "-o", tmp_path / "l.parquet"],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.endswith("error: --ray needs Ray Data: `pip install 'asp-schedule[ray]'`\n")
    assert not (tmp_path / "l.parquet").exists()


def test_ray_needs_a_file(asp: Asp, made: Path, tmp_path: Path) -> None:
    done = asp("predict", "-", "--predictor", made / "p", "--ray", "local", "-o", tmp_path / "l")
    assert done.code == 2 and "all nodes see, not `-`" in done.only_line


def test_an_address_where_nobody_listens_is_one_line(asp: Asp, made: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra: pip install 'asp-schedule[ray]'")
    done = asp(
        "predict", made / "prompts.parquet", "--predictor", made / "p", "-q",
        "--ray", "127.0.0.1:1", "-o", tmp_path / "l.parquet",
    )  # fmt: skip
    assert done.code == 1
    assert "--ray 127.0.0.1:1: no Ray cluster is reached" in done.stderr.splitlines()[-1]


def test_an_address_without_a_port_is_one_line(asp: Asp, made: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra: pip install 'asp-schedule[ray]'")
    done = asp(
        "predict", made / "prompts.parquet", "--predictor", made / "p", "-q",
        "--ray", "127.0.0.1:-1", "-o", tmp_path / "l.parquet",
    )  # fmt: skip
    assert done.code == 1 and "'-1' is no port, a number from 1 to 65535" in done.stderr


@pytest.mark.parametrize("value", ["inf", "1e400"])
def test_an_infinite_temperature_is_a_wrong_flag(
    asp: Asp, made: Path, tmp_path: Path, value: str
) -> None:
    flags = ("--predictor", made / "p", "--temperature", value, "-o", tmp_path / "l")
    done = asp("predict", made / "prompts.parquet", *flags)
    assert (done.code, "must be a finite number" in done.only_line) == (2, True)


@pytest.mark.parametrize("twice", ["prompt", "k"])
def test_a_column_that_is_there_twice_is_one_line(
    asp: Asp, made: Path, tmp_path: Path, twice: str
) -> None:
    table = pa.table([["a"], ["b"], ["c"]], names=["prompt", "k", twice])
    pq.write_table(table, tmp_path / "p.parquet")
    flags = ("--predictor", made / "p", "--keep-column", "k", "-q", "-o", tmp_path / "l")
    done = asp("predict", tmp_path / "p.parquet", *flags)
    assert done.code == 1
    assert f"p.parquet: has 2 columns of the name {twice!r}; rename one" in done.only_line


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same_bytes(
    asp_process: Asp, made: Path, lengths: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs the extra: pip install 'asp-schedule[ray]'")
    out = tmp_path / "l.parquet"
    done = asp_process(
        "predict", made / "prompts.parquet", "--predictor", made / "p", "--keep-column", "level",
        "--ray", "local", "-o", out,
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert out.read_bytes() == lengths.read_bytes()
