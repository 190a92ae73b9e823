"""Prompts that are too long: each row stands in the data file or in the list beside it."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.emit.overlong import take_out
from stages.emit.plan import spell_out
from stages.emit.stage import EmitConfig, run_for_trainer
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Groups
from tests.tiny import byte_tokenizer

MakePlan = Callable[..., pl.DataFrame]


@pytest.fixture(scope="session")
def make_plan(make_groups: Callable[..., pl.DataFrame]) -> MakePlan:
    def make(sizes: list[list[int]], num_epochs: int = 1) -> pl.DataFrame:
        return spell_out(conform(make_groups(sizes, num_epochs), Groups, "g", complete_groups))

    return make


def test_worked_case() -> None:
    """Prompts 3 and 4 are out. Of the last two rows, 7 is of a minibatch of shorter responses.

    So 7 goes to the place among short ones, 8 to that among long ones.
    """
    plan = pl.DataFrame(
        {
            "epoch": 0,
            "group_id": [0, 0, 0, 0, 1, 1, 2, 2, 2],
            "minibatch_id": [0, 0, 1, 1, 2, 2, 3, 4, 5],
            "instance": None,
            "predicted_longest": [10.0, 10.0, 20.0, 20.0, 80.0, 80.0, 90.0, 30.0, 70.0],
            "prompt_id": [0, 1, 2, 3, 4, 5, 6, 7, 8],
            "prompt_hash": [*"abcdefghi"],
            "is_repeat": False,
        }
    )
    left, num_moved = take_out(plan, pl.Series([id in (3, 4) for id in range(9)]))
    assert num_moved == 2
    assert left["prompt_id"].to_list() == [0, 1, 2, 7, 8, 5, 6]
    assert left["prompt_hash"].to_list() == [*"abchifg"]
    assert left["minibatch_id"].to_list() == [0, 0, 1, 1, 2, 2, 3]
    assert left["group_id"].to_list() == [0, 0, 0, 0, 1, 1, 2]


@given(
    num_epochs=st.integers(1, 2),
    sizes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=5),
    data=st.data(),
)
def test_places_stay_and_every_prompt_is_kept_or_named(
    make_plan: MakePlan, sizes: list[list[int]], num_epochs: int, data: st.DataObject
) -> None:
    plan = make_plan(sizes, num_epochs)
    num_prompts = plan["prompt_id"].n_unique()
    is_out = data.draw(st.lists(st.booleans(), min_size=num_prompts, max_size=num_prompts))
    out = {i for i, flag in enumerate(is_out) if flag}
    if len(out) == num_prompts:
        with pytest.raises(AspError, match="nothing would be left"):
            take_out(plan, pl.Series(is_out))
        return
    left, _ = take_out(plan, pl.Series(is_out))
    place = ["group_id", "minibatch_id", "instance", "predicted_longest"]
    hash_of = dict(plan.select("prompt_id", "prompt_hash").iter_rows())
    assert dict(left.select("prompt_id", "prompt_hash").iter_rows()).items() <= hash_of.items()
    for (epoch,), rows in left.group_by("epoch"):
        before = plan.filter(pl.col("epoch") == epoch)
        assert sorted([*rows["prompt_id"], *out]) == list(range(num_prompts))
        assert rows.select(place).equals(before.head(len(rows)).select(place))
        stays = before.head(len(rows)).filter(~pl.col("prompt_id").is_in(out))
        assert (rows["prompt_id"] == before.head(len(rows))["prompt_id"]).sum() == len(stays)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer("a b", 300, ["<pad>", "<end>"]).save_pretrained(folder)
    return folder


def test_what_is_left_out_stands_in_a_file_beside(tokenizer: Path, tmp_path: Path) -> None:
    """One token a byte; prompt 2 has 30, the others at most 9."""
    texts = ["a", "bb", "c" * 30, "dddd", "e" * 9, "f"]
    pl.DataFrame({"prompt": texts, "n": range(6)}).write_parquet(tmp_path / "p.parquet")
    pl.DataFrame(
        {
            "minibatch_id": [0, 1, 2], "position": [0, 1, 2], "group_id": [0, 1, 2],
            "prompt_ids": [[0, 2], [1, 3], [5, 4]], "num_samples": [4, 4, 4],
            "predicted_tokens": 1.0, "predicted_longest": 1.0, "predicted_seconds": 1.0,
            "predicted_utilization": 0.5,
        }
    ).write_parquet(tmp_path / "g.parquet")  # fmt: skip
    files = [str(tmp_path / name) for name in ("g.parquet", "p.parquet", "out")]
    config = EmitConfig(max_prompt_tokens=9, tokenizer=str(tokenizer))
    run_for_trainer(*files, "trl", config)
    assert pl.read_parquet(tmp_path / "out/prompts.parquet")["n"].to_list() == [0, 4, 1, 3, 5]
    (line,) = (tmp_path / "out/overlong.jsonl").read_text().splitlines()
    assert json.loads(line).keys() == {"prompt_id", "prompt_hash", "prompt_tokens"}
    assert (json.loads(line)["prompt_id"], json.loads(line)["prompt_tokens"]) == (2, 30)
    sidecar = json.loads((tmp_path / "out/asp.json").read_text())
    assert sidecar["overlong"] == {
        "max_prompt_tokens": 9,
        "tokenizer": tokenizer.name,
        "prompt_ids": [2],
        "num_moved": 1,
    }
    assert [span["num_rows"] for span in sidecar["groups"]] == [2, 2, 1]
    assert sidecar["num_straddling_groups"] == 0
    assert "1 prompts have more than 9 tokens" in (tmp_path / "out/README.md").read_text()


def test_a_limit_below_every_prompt_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    pl.DataFrame({"prompt": ["aaa", "bbb"]}).write_parquet(tmp_path / "p.parquet")
    pl.DataFrame(
        {
            "minibatch_id": [0], "position": [0], "group_id": [0], "prompt_ids": [[0, 1]],
            "num_samples": [4], "predicted_tokens": 1.0, "predicted_longest": 1.0,
            "predicted_seconds": 1.0, "predicted_utilization": 0.5,
        }
    ).write_parquet(tmp_path / "g.parquet")  # fmt: skip
    files = [str(tmp_path / name) for name in ("g.parquet", "p.parquet", "out")]
    with pytest.raises(AspError, match="all 2 prompts are longer"):
        run_for_trainer(*files, "trl", EmitConfig(max_prompt_tokens=2, tokenizer=str(tokenizer)))
    assert not (tmp_path / "out").exists()
