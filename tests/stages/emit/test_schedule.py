"""The canonical schedule: order, and everything a consumer needs in its footer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from stages.emit.schedule import CanonicalSchedule, make_schedule
from stages.emit.stage import run
from stages.tables.derived import complete_groups
from stages.tables.io import read_table
from stages.tables.schemas import Groups, Schedule


def schedule_of(path: Path) -> CanonicalSchedule:
    return make_schedule(read_table(str(path), Groups, complete_groups))


def test_rows_come_epoch_by_epoch_in_dispatch_order(
    make_groups: Callable[..., pl.DataFrame], tmp_path: Path
) -> None:
    groups = make_groups([[2, 3], [4]], num_epochs=2)
    groups.sample(fraction=1, shuffle=True, seed=3).write_parquet(tmp_path / "g.parquet")
    frame = schedule_of(tmp_path / "g.parquet").frame
    assert frame["epoch"].to_list() == [0, 0, 0, 1, 1, 1]
    assert frame["position"].to_list() == [0, 1, 2, 0, 1, 2]
    assert frame["prompt_ids"].to_list() == groups["prompt_ids"].to_list()


def test_a_table_by_hand_tells_what_its_rows_tell_and_null_for_the_rest(
    make_groups: Callable[..., pl.DataFrame], tmp_path: Path
) -> None:
    make_groups([[2, 3], [4]], num_epochs=2, samples=5).write_parquet(tmp_path / "g.parquet")
    provenance = schedule_of(tmp_path / "g.parquet").provenance
    assert provenance.config == {
        "samples_per_prompt": 5,
        "batch_size": None,
        "slack": None,
        "group_size": None,
        "prompts_per_group": None,
        "cost_model": None,
        "lag_bound": None,
    }
    assert provenance.results == {
        "num_epochs": 2,
        "num_prompts": 9,
        "num_minibatches": 6,
        "num_tail_minibatches": 0,
        "num_groups": 4,
    }


def test_settings_of_the_stages_before_are_carried_along(
    write_groups: Callable[..., Path], tmp_path: Path
) -> None:
    config = schedule_of(write_groups(tmp_path / "g.parquet", [[2, 3], [4]])).provenance.config
    assert (config["batch_size"], config["slack"], config["group_size"]) == (32, 0.25, 8)
    assert config["cost_model"] == {"step_seconds": 0.02, "sequence_seconds": 8e-05}
    exact = schedule_of(
        write_groups(tmp_path / "p.parquet", [[2, 3], [4]], prompts_per_group=5)
    ).provenance.config
    assert (exact["group_size"], exact["prompts_per_group"]) == (None, 5)


def test_samples_that_vary_are_not_one_setting(
    make_groups: Callable[..., pl.DataFrame], tmp_path: Path
) -> None:
    groups = make_groups([[2, 2]]).with_columns(num_samples=pl.Series([4, 8]))
    groups.write_parquet(tmp_path / "g.parquet")
    assert schedule_of(tmp_path / "g.parquet").provenance.config["samples_per_prompt"] is None


def test_tail_minibatches_and_extra_columns_stay(
    make_groups: Callable[..., pl.DataFrame], tmp_path: Path
) -> None:
    heads = make_groups([[2, 2]]).with_columns(
        kind=pl.lit("head"), round=0, num_prompts=2, note=pl.Series(["a", "b"])
    )
    tail = heads.tail(1).with_columns(
        kind=pl.lit("tail"), round=1, minibatch_id=9, position=9, note=pl.lit("t"),
        prompt_ids=pl.lit([], dtype=pl.List(pl.Int64)),
        prompt_hashes=pl.lit([], dtype=pl.List(pl.String)),
    )  # fmt: skip
    pl.concat([heads, tail], how="vertical_relaxed").write_parquet(tmp_path / "g.parquet")
    run(str(tmp_path / "g.parquet"), str(tmp_path / "s.parquet"))
    table = read_table(str(tmp_path / "s.parquet"), Schedule)
    assert table.frame["note"].to_list() == ["a", "b", "t"]
    assert table.provenance is not None
    assert table.provenance.results["num_tail_minibatches"] == 1
    assert table.provenance.config["samples_per_prompt"] == 2


def test_equal_input_gives_equal_bytes_and_a_footer_of_plain_json(
    write_groups: Callable[..., Path], tmp_path: Path
) -> None:
    groups = write_groups(tmp_path / "g.parquet", [[2, 3], [4]])
    outputs = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for output in outputs:
        run(str(groups), str(output))
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    footer: dict[str, Any] = json.loads(pl.read_parquet_metadata(outputs[0])["asp"])
    assert footer["stage"] == "emit" and footer["schema"] == "schedule/1"
    assert footer["inputs"][0]["asp"]["inputs"][0]["asp"]["stage"] == "partition"
