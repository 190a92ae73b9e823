"""`asp emit` from the outside: what is written, what is said, what is refused."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.emit import stage
from stages.emit.stage import EmitConfig, run_for_trainer
from stages.emit.trainers import TRAINERS
from stages.tables.io import read_table
from stages.tables.prompts import prompt_hash
from stages.tables.provenance import Provenance
from stages.tables.schemas import Schedule

COMMON = {"prompts.parquet", "schedule.parquet", "asp.json", "README.md"}
FILES = {
    "verl": {
        "overrides.txt", "asp_router.yaml", "asp_router.py", "asp_order.py", "asp_sampler.py",
        "asp_verl_sampler.py",
    },
    "trl": {"grpo_config.json"},
    "slime": {"slime_args.txt", "asp_order.py", "asp_slime.py"},
    "skyrl": {"skyrl_overrides.txt", "asp_order.py", "asp_sampler.py", "asp_skyrl.py"},
}  # fmt: skip
SPANS = [
    {"epoch": 0, "group_id": 0, "minibatch_id": 0, "first_row": 0, "num_rows": 2},
    {"epoch": 0, "group_id": 0, "minibatch_id": 1, "first_row": 2, "num_rows": 3},
    {"epoch": 0, "group_id": 1, "minibatch_id": 2, "first_row": 5, "num_rows": 4},
]  # of the worked case, in rows of the data file


def text_of(prompt_id: int) -> str:
    return f"Question {prompt_id}"


def make_groups(sizes: list[list[int]], seed: int = 0, num_epochs: int = 1) -> pl.DataFrame:
    """A groups table as a user would write it: each list a group, each number a minibatch."""
    rows: list[dict[str, Any]] = []
    for epoch in range(num_epochs):
        rng = np.random.default_rng([seed, epoch])
        order = rng.permutation(sum(map(sum, sizes))).tolist()
        for group_id, group in enumerate(sizes):
            for size in group:
                ids, order = order[:size], order[size:]
                rows.append(
                    {"minibatch_id": len(rows), "epoch": epoch, "group_id": group_id,
                     "position": len(rows), "prompt_ids": ids, "num_samples": 2 * size,
                     "prompt_hashes": [prompt_hash(text_of(i)) for i in ids],
                     "predicted_tokens": 10.0 * size, "predicted_longest": 10.0,
                     "predicted_seconds": 1.0, "predicted_utilization": 0.5}
                )  # fmt: skip
    return pl.DataFrame(rows)


def make_prompts(num_prompts: int) -> pl.DataFrame:
    rows = range(num_prompts)
    return pl.DataFrame({"prompt": [text_of(i) for i in rows], "answer": rows})


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    """Nine prompts in groups of 5 and 4."""
    groups, prompts = tmp_path / "groups.parquet", tmp_path / "prompts.parquet"
    make_groups([[2, 3], [4]]).write_parquet(groups)
    make_prompts(9).write_parquet(prompts)
    return groups, prompts


def everything_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_canonical_schedule_needs_no_other_file(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    done = asp("emit", inputs[0], "-o", tmp_path / "s.parquet")
    assert done.code == 0 and done.stdout == b""
    assert done.only_line == "asp: 9 prompts in 3 minibatches, 2 groups, 1 epoch"
    table = read_table(str(tmp_path / "s.parquet"), Schedule)
    assert table.provenance is not None and table.provenance.config["samples_per_prompt"] == 2


def test_a_pipe_gives_the_same_bytes_as_files(
    asp: Callable[..., Any],
    asp_process: Callable[..., Any],
    inputs: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    groups, prompts = inputs
    asp("emit", groups, "-o", tmp_path / "s.parquet")
    piped = asp_process("emit", "-", "-o", "-", stdin=groups.read_bytes())
    assert piped.stdout == (tmp_path / "s.parquet").read_bytes()

    arguments = ("--for", "verl", "--remainder", "repeat", "-o")
    asp("emit", groups, "--prompts", prompts, *arguments, tmp_path / "files")
    asp("emit", groups, "--prompts", prompts, *arguments, tmp_path / "again")
    asp_process(
        "emit", groups, "--prompts", "-", *arguments, tmp_path / "piped", stdin=prompts.read_bytes()
    )
    assert everything_in(tmp_path / "files") == everything_in(tmp_path / "again")
    assert everything_in(tmp_path / "files") == everything_in(tmp_path / "piped")


@pytest.mark.parametrize("trainer", FILES)
def test_worked_case(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path, trainer: str
) -> None:
    groups, prompts = inputs
    output = tmp_path / "out"
    done = asp("emit", groups, "--prompts", prompts, "--for", trainer, "-o", output)
    assert done.code == 0, done.stderr
    assert {path.name for path in output.iterdir()} == COMMON | FILES[trainer]
    ids = [i for row in pl.read_parquet(groups)["prompt_ids"] for i in row]
    rows = pl.read_parquet(output / "prompts.parquet")
    assert rows.select("prompt", "answer").equals(pl.read_parquet(prompts)[ids])
    if TRAINERS[trainer].carries_columns:
        assert rows["asp_prompt_id"].to_list() == ids
        assert rows["asp_minibatch_id"].to_list() == [0] * 2 + [1] * 3 + [2] * 4
        assert rows["asp_group_id"].to_list() == [0] * 5 + [1] * 4
        assert rows["asp_epoch"].to_list() == [0] * 9
        assert rows.width == 6
    else:
        assert rows.width == 2
    sidecar = json.loads((output / "asp.json").read_text())
    assert sidecar["epochs"] == [{"epoch": 0, "first_row": 0, "num_rows": 9}]
    spans = [span | {"instance": None} for span in SPANS]
    assert sidecar["row_prompt_ids"] == ids
    assert sidecar["minibatches"] == spans
    assert (sidecar["train_batch_size"], sidecar["train_batch_size_from"]) == (5, "groups")
    assert sidecar["remainder"] == {
        "rule": "keep",
        "num_prompts": 4,
        "epochs": [{"epoch": 0, "first_row": 5, "num_rows": 4}],
    }
    assert "skips the last 4 of 9 rows" in done.stderr
    asp("emit", groups, "-o", tmp_path / "s.parquet")
    assert (output / "schedule.parquet").read_bytes() == (tmp_path / "s.parquet").read_bytes()


def test_words_about_the_remainder_and_the_fit(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs

    def words(name: str, *arguments: object) -> str:
        done = asp(
            "emit", groups, "--prompts", prompts, "--for", "trl", "-o", tmp_path / name, *arguments
        )
        assert done.code == 0
        return str(done.stderr)

    assert "--remainder repeat touches 1 prompts" in words("r", "--remainder", "repeat")
    assert "--remainder drop touches 4 prompts" in words("d", "--remainder", "drop")
    straddling = words("s", "--train-batch-size", 3)
    assert "here of 3 prompts (from: --train-batch-size), and 2 of 2 groups straddle" in straddling
    assert "`asp balance --prompts-per-group 3`" in straddling
    assert "it makes no step" in words("n", "--train-batch-size", 10)
    assert words("q", "--quiet", "--remainder", "repeat") == ""


def test_budgets_and_instances_that_the_trainer_ignores_are_said(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    planned = pl.read_parquet(groups).with_columns(token_budget=512, instance=0)
    planned.write_parquet(groups)

    def words(trainer: str) -> str:
        out = tmp_path / trainer
        done = asp("emit", groups, "--prompts", prompts, "--for", trainer, "-o", out)
        assert done.code == 0
        assert "knows no token budgets: 3 minibatches have one" in done.stderr
        return str(done.stderr)

    assert "no setting for the planned instances" in words("trl")
    assert "no setting for the planned instances" not in words("verl")
    assert "its settings for that are written" in words("slime")
    assert "--partial-rollout\n" in (tmp_path / "slime" / "slime_args.txt").read_text()


@pytest.mark.parametrize("name", TRAINERS)
def test_a_filter_after_generation_is_warned_of(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    groups, prompts = inputs
    done = asp("emit", groups, "--prompts", prompts, "--for", name, "-o", tmp_path / "out")
    filters = TRAINERS[name].filters
    assert done.code == 0
    assert ("shifts every later batch" in done.stderr) == bool(filters)
    assert filters in done.stderr


def test_rows_that_are_placed_are_numbered_for_the_router(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    planned = pl.read_parquet(groups).with_columns(instance=pl.Series([1, None, 0]))
    planned.write_parquet(groups)
    out = tmp_path / "out"
    assert asp("emit", groups, "--prompts", prompts, "--for", "verl", "-o", out).code == 0
    sidecar = json.loads((out / "asp.json").read_text())
    rows = pl.read_parquet(out / "prompts.parquet")
    assert rows["priority"].to_list() == [sidecar["first_priority"] + row for row in range(9)]
    assert rows["asp_instance"].to_list() == [1, 1, None, None, None, 0, 0, 0, 0]
    assert [span["instance"] for span in sidecar["minibatches"]] == [1, None, 0]
    assert "router_config_path=${ASP_DIR}/asp_router.yaml" in (out / "overrides.txt").read_text()


def test_a_column_that_emit_adds_must_be_free(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    pl.read_parquet(prompts).with_columns(asp_epoch=1).write_parquet(prompts)
    done = asp("emit", groups, "--prompts", prompts, "--for", "trl", "-o", tmp_path / "out")
    assert done.code == 1 and "column 'asp_epoch' is one that emit adds" in done.only_line
    assert not (tmp_path / "out").exists()


def test_list_names_every_trainer_and_needs_nothing_else(asp: Callable[..., Any]) -> None:
    done = asp("emit", "--list")
    head, *lines = done.stdout.decode().splitlines()
    assert done.code == 0 and head.startswith("--for")
    assert [line.split()[0] for line in lines] == list(TRAINERS)


@settings(max_examples=40)
@given(
    num_prompts=st.sampled_from([1, 2, 7, 8, 9, 31, 37]),
    data=st.data(),
    num_epochs=st.integers(1, 2),
    train_batch_size=st.none() | st.integers(1, 12),
    rule=st.sampled_from(["keep", "repeat"]),
    trainer=st.sampled_from(sorted(TRAINERS)),
)
def test_every_row_is_written_once_an_epoch(
    tmp_path_factory: pytest.TempPathFactory,
    num_prompts: int,
    data: st.DataObject,
    num_epochs: int,
    train_batch_size: int | None,
    rule: Any,
    trainer: str,
) -> None:
    folder = tmp_path_factory.mktemp("emit")
    sizes: list[list[int]] = []
    while left := num_prompts - sum(map(sum, sizes)):
        group = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
        sizes.append(group if sum(group) <= left else [left])
    groups = make_groups(sizes, num_epochs=num_epochs)
    groups.sample(fraction=1, shuffle=True, seed=1).write_parquet(folder / "g.parquet")
    make_prompts(num_prompts).write_parquet(folder / "p.parquet")
    config = EmitConfig(remainder=rule, train_batch_size=train_batch_size)
    run_for_trainer(
        str(folder / "g.parquet"), str(folder / "p.parquet"), str(folder / "o"), trainer, config
    )
    sidecar = json.loads((folder / "o" / "asp.json").read_text())
    answers = pl.read_parquet(folder / "o" / "prompts.parquet")["answer"].to_list()
    assert answers == sidecar["row_prompt_ids"] and len(answers) == sidecar["num_rows"]
    repeats = sidecar["remainder"]["epochs"] if rule == "repeat" else []
    added = {r for e in repeats for r in range(e["first_row"], e["first_row"] + e["num_rows"])}
    scheduled = [answer for row, answer in enumerate(answers) if row not in added]
    assert scheduled == [i for ids in groups["prompt_ids"] for i in ids]
    for epoch in range(num_epochs):
        part = scheduled[epoch * num_prompts : (epoch + 1) * num_prompts]
        assert sorted(part) == list(range(num_prompts))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{groups} --for verl -o out", "--for needs --prompts"),
        ("{groups} --prompts {prompts} -o out", "--prompts needs --for"),
        ("{groups} --prompts {prompts} --for megatron -o out", "known: verl, verl-one"),
        ("{groups} --prompts {prompts} --for verl -o -", "is a directory, which `-` cannot"),
        ("- --prompts - --for verl -o out", "`-` can stand for one input only"),
        ("{groups} --prompts {prompts} --for verl -o out --remainder lose", "lose"),
        (
            "{groups} --prompts {prompts} --for verl -o out --train-batch-size 0",
            "--train-batch-size",
        ),
        ("{groups} -o out --remainder drop", "with --for only"),
        ("{groups} -o out --train-batch-size 8", "with --for only"),
        ("{groups} -o out --max-prompt-tokens 8 --tokenizer t", "with --for only"),
        (
            "{groups} --prompts {prompts} --for verl -o out --max-prompt-tokens 8",
            "--max-prompt-tokens and --tokenizer need each other",
        ),
        ("{groups}", "--output"),
    ],
)
def test_wrong_flags_are_one_line_and_exit_2(
    asp: Callable[..., Any],
    inputs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = asp("emit", *arguments.format(groups=inputs[0], prompts=inputs[1]).split())
    assert done.code == 2
    assert said in done.only_line
    assert sorted(tmp_path.iterdir()) == before


def _reordered(groups: Path, prompts: Path) -> None:
    pl.read_parquet(prompts).reverse().write_parquet(prompts)


def _filtered(groups: Path, prompts: Path) -> None:
    pl.read_parquet(prompts).head(7).write_parquet(prompts)


def _text_changed(groups: Path, prompts: Path) -> None:
    frame = pl.read_parquet(prompts)
    is_changed = pl.col("answer") == 6
    prompt = pl.when(is_changed).then(pl.lit("Another")).otherwise("prompt")
    frame.with_columns(prompt=prompt).write_parquet(prompts)


def _prompt_renamed(groups: Path, prompts: Path) -> None:
    pl.read_parquet(prompts).rename({"prompt": "question"}).write_parquet(prompts)


def _prompt_null(groups: Path, prompts: Path) -> None:
    frame = pl.read_parquet(prompts)
    frame.with_columns(pl.when(pl.col("answer") > 1).then("prompt")).write_parquet(prompts)


def _truncated(groups: Path, prompts: Path) -> None:
    prompts.write_bytes(prompts.read_bytes()[:-20])


def _csv(groups: Path, prompts: Path) -> None:
    prompts.write_text("prompt,answer\na,1\n")


def _groups_truncated(groups: Path, prompts: Path) -> None:
    groups.write_bytes(groups.read_bytes()[:-20])


def _samples_vary(groups: Path, prompts: Path) -> None:
    frame = pl.read_parquet(groups)
    frame.with_columns(num_samples=pl.Series([4, 6, 16])).write_parquet(groups)


def _prompt_twice(groups: Path, prompts: Path) -> None:
    frame = pl.read_parquet(groups)
    first = frame["prompt_ids"][0].to_list()
    ids = [first, frame["prompt_ids"][1].to_list(), [*first, *frame["prompt_ids"][2][:2]]]
    frame.with_columns(prompt_ids=pl.Series(ids)).write_parquet(groups)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_reordered, "8 of 9 prompts differ, first row 0 (from 0)"),
        (_filtered, "has 7 rows, but"),
        (_text_changed, "1 of 9 prompts differ, first row 6 (from 0)"),
        (_prompt_renamed, "no column 'prompt' (--prompt-column); it has question, answer"),
        (_prompt_null, "2 prompts are null, empty"),
        (_truncated, "not a Parquet file: it is damaged or cut short"),
        (_csv, "not a Parquet file: it does not start as one"),
        (_groups_truncated, "groups.parquet: not a Parquet file"),
        (_samples_vary, "num_samples / num_prompts differs"),
        (_prompt_twice, "prompt ids stand once"),
    ],
)
def test_bad_input_is_one_line_and_exit_1_with_nothing_left_behind(
    asp: Callable[..., Any],
    inputs: tuple[Path, Path],
    tmp_path: Path,
    spoil: Callable[[Path, Path], None],
    said: str,
) -> None:
    spoil(*inputs)
    before = sorted(tmp_path.iterdir())
    done = asp("emit", inputs[0], "--prompts", inputs[1], "--for", "trl", "-o", tmp_path / "out")
    assert done.code == 1
    assert said in done.only_line
    assert sorted(tmp_path.iterdir()) == before


def test_another_prompt_column(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    _prompt_renamed(groups, prompts)
    arguments = ("--prompts", prompts, "--prompt-column", "question", "-o", tmp_path / "out")
    done = asp("emit", groups, "--for", "verl", *arguments)
    assert done.code == 0
    assert "data.prompt_key=question" in (tmp_path / "out" / "overrides.txt").read_text()


def test_an_existing_output_needs_force_and_must_be_ours(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    output = tmp_path / "out"
    emit = ("emit", groups, "--prompts", prompts, "--for", "trl", "-o", output)
    assert asp(*emit).code == 0
    before = everything_in(output)
    refused = asp(*emit)
    assert refused.code == 1 and "--force" in refused.only_line
    assert asp(*emit, "--remainder", "repeat", "--force").code == 0
    assert everything_in(output) != before

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    refused = asp(*emit[:-1], tmp_path / "mine", "--force")
    assert (
        refused.code == 1 and "no asp.json, so the toolchain did not write it" in refused.only_line
    )
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    assert not list(tmp_path.glob(".*"))


def test_an_unwritable_folder_is_one_line(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    done = asp(
        "emit", groups, "--prompts", prompts, "--for", "trl", "-o", tmp_path / "absent" / "out"
    )
    assert done.code == 1 and "does not exist" in done.only_line


def test_a_prompt_file_that_is_a_pipe(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    os.mkfifo(tmp_path / "pipe")
    data = prompts.read_bytes()
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    done = asp("emit", groups, "--prompts", tmp_path / "pipe", "--for", "trl", "-o", tmp_path / "o")
    writer.join()
    assert done.code == 0 and (tmp_path / "o" / "prompts.parquet").exists()


def test_an_input_inside_the_output_is_not_destroyed(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    out = tmp_path / "out"
    arguments = ("--for", "trl", "-o", out, "--force")
    assert asp("emit", groups, "--prompts", prompts, *arguments).code == 0
    mine = out / "mine.parquet"
    mine.write_bytes(prompts.read_bytes())
    done = asp("emit", groups, "--prompts", mine, *arguments)
    assert done.code == 1 and f"{mine}: lies in {out}" in done.only_line
    assert mine.exists()


@pytest.mark.parametrize("size", ["x", 0, -1, 1.5, [1]])
def test_settings_in_a_footer_that_are_no_counts_are_as_good_as_absent(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path, size: object
) -> None:
    groups, prompts = inputs
    origin = Provenance("balance", "groups/1", {"prompts_per_group": size, "group_size": size})
    frame = pl.read_parquet(groups)
    frame.write_parquet(groups, metadata={"asp": origin.to_json()})
    done = asp("emit", groups, "--prompts", prompts, "--for", "trl", "-o", tmp_path / "out")
    assert done.code == 0


def test_repeats_without_end_are_refused(
    asp: Callable[..., Any], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    groups, prompts = inputs
    done = asp(
        "emit", groups, "--prompts", prompts, "--for", "trl", "-o", tmp_path / "out",
        "--remainder", "repeat", "--train-batch-size", 10**12,
    )  # fmt: skip
    assert done.code == 1 and "--remainder repeat: epoch 0 has 9 prompts" in done.only_line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_output(
    asp: Callable[..., Any],
    inputs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = "../../../../../../../../dev/full"
    monkeypatch.setattr(stage, "SCHEDULE_FILE", full)
    done = asp("emit", inputs[0], "--prompts", inputs[1], "--for", "trl", "-o", tmp_path / "out")
    assert done.code == 1
    assert f"{tmp_path / 'out'}: cannot be written: No space left" in done.only_line
