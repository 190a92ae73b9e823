"""slime's own dataset and data source over an emitted directory.

slime is on no package index: put its source folder on PYTHONPATH (with ray, torch, transformers,
datasets), else this is skipped. Its rollout engine is not needed.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import TEMPLATE, byte_tokenizer
from tests.trainers.handed_over import (
    NUM_PROMPTS,
    SAMPLES,
    TRAIN_BATCH,
    hand_over,
    on_path,
    planned_batches,
    sidecar,
)

data_source = pytest.importorskip("slime.rollout.data_source")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer, all that the data source loads of a model."""
    folder = tmp_path_factory.mktemp("model")
    special = ["<pad>", "<|start|>", "<|end|>"]
    byte_tokenizer("a", 300, special, TEMPLATE).save_pretrained(folder)
    return str(folder)


def make_args(folder: Path, checkpoint: str, save: Path, **changes: Any) -> Namespace:
    """The emitted arguments, and slime's defaults for the rest that the data source reads."""
    text = (folder / "slime_args.txt").read_text().replace('"${ASP_DIR}', f'"{folder}')
    words = (line.removeprefix("--").partition(" ") for line in text.splitlines())
    emitted = {name.replace("-", "_"): value.strip('"') or True for name, _, value in words}
    counts = ("rollout_batch_size", "over_sampling_batch_size", "n_samples_per_prompt")
    defaults = {
        "rollout_global_dataset": True, "hf_checkpoint": checkpoint, "dump_details": None,
        "rollout_max_prompt_len": None, "multimodal_keys": None, "label_key": "answer",
        "metadata_key": "metadata", "tool_key": "tools", "apply_chat_template": False,
        "apply_chat_template_kwargs": {}, "rollout_seed": 42, "rollout_shuffle": False,
        "buffer_filter_path": None, "save": str(save), "load": str(save),
    }  # fmt: skip
    merged = defaults | emitted | {name: int(emitted[name]) for name in counts} | changes
    return Namespace(**merged)


def labels(groups: list[list[Any]]) -> list[int]:
    """The prompt of each sample group, which all of its samples share."""
    assert all(len({sample.label for sample in group}) == 1 for group in groups)
    assert all(len(group) == SAMPLES for group in groups)
    return [int(group[0].label) for group in groups]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_slimes_own_source_follows_the_file_for_two_epochs(
    tmp_path: Path, checkpoint: str, suffix: str
) -> None:
    folder = hand_over(tmp_path, "slime", suffix=suffix)
    args = make_args(folder, checkpoint, tmp_path / "save")
    assert args.rollout_batch_size == args.over_sampling_batch_size == TRAIN_BATCH
    source = data_source.RolloutDataSourceWithBuffer(args)
    planned = planned_batches(folder)
    assert [labels(source.get_samples(TRAIN_BATCH)) for _ in planned] == planned
    assert labels(source.get_samples(TRAIN_BATCH)) == planned[0]  # it starts over


def test_the_shipped_source_does_so_too_and_says_where_a_sample_belongs(
    tmp_path: Path, checkpoint: str
) -> None:
    folder = hand_over(tmp_path, "slime")
    planned = planned_batches(folder)
    with on_path(folder):
        from asp_slime import ScheduledDataSource

        source = ScheduledDataSource(make_args(folder, checkpoint, tmp_path / "save"))
        assert [labels(source.get_samples(TRAIN_BATCH)) for _ in planned] == planned
        (first, *_) = source.get_samples(TRAIN_BATCH)
    assert len(source) == 2 * (NUM_PROMPTS + 2)
    (span, *_) = sidecar(folder)["minibatches"]
    place = {name: span[name] for name in ("epoch", "group_id", "minibatch_id")}
    assert first[1].metadata["asp"] == {"prompt_id": planned[0][0], **place}
    assert first[0].index == len(planned) * TRAIN_BATCH * SAMPLES


def test_a_step_that_drew_more_is_followed_by_a_whole_planned_one(
    tmp_path: Path, checkpoint: str
) -> None:
    """Over-sampling by a half: what it took of a batch is trained, the rest comes last."""
    folder = hand_over(tmp_path, "slime", num_epochs=1)
    planned = planned_batches(folder)
    with on_path(folder):
        from asp_slime import ScheduledDataSource

        source = ScheduledDataSource(make_args(folder, checkpoint, tmp_path / "save"))
        first = labels(source.get_samples(6))
        source.order.anchor()
        rest = [labels(source.get_samples(TRAIN_BATCH)) for _ in range(4)]
        source.order.anchor()
        last = labels(source.get_samples(2))
    assert first == [*planned[0], *planned[1][:2]]
    assert rest == planned[2:] and last == planned[1][2:]


def test_a_checkpoint_holds_the_place_and_the_buffer(tmp_path: Path, checkpoint: str) -> None:
    folder = hand_over(tmp_path, "slime")
    planned = planned_batches(folder)
    args = make_args(folder, checkpoint, tmp_path / "save")
    with on_path(folder):
        from asp_slime import ScheduledDataSource

        source = ScheduledDataSource(args)
        drawn = [source.get_samples(TRAIN_BATCH) for _ in range(7)]
        aborted = drawn[-1][0]
        aborted[0].response, aborted[0].response_length = "half", 1
        source.add_samples([aborted])
        source.save(3)

        resumed = ScheduledDataSource(args)
        resumed.load(3)
        (carried,) = resumed.get_samples(1)
        rest = [labels(resumed.get_samples(TRAIN_BATCH)) for _ in planned[7:]]
    assert (carried[0].response, int(carried[0].label)) == ("half", planned[6][0])
    assert rest == planned[7:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout_shuffle": True}, "--rollout-shuffle"),
        ({"rollout_max_prompt_len": 1}, "has 0 rows"),
    ],
)
def test_what_would_lose_the_schedule_is_refused(
    tmp_path: Path, checkpoint: str, changes: dict[str, Any], message: str
) -> None:
    folder = hand_over(tmp_path, "slime")
    with on_path(folder):
        from asp_slime import ScheduledDataSource

        with pytest.raises(ValueError, match=message):
            ScheduledDataSource(make_args(folder, checkpoint, tmp_path / "save", **changes))


def test_slime_told_to_shuffle_loses_the_schedule(tmp_path: Path, checkpoint: str) -> None:
    """The checks above can fail."""
    folder = hand_over(tmp_path, "slime")
    args = make_args(folder, checkpoint, tmp_path / "save", rollout_shuffle=True)
    source = data_source.RolloutDataSourceWithBuffer(args)
    planned = planned_batches(folder)
    assert [labels(source.get_samples(TRAIN_BATCH)) for _ in planned] != planned
