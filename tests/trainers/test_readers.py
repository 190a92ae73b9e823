"""Readers of further trainers over emitted directories: their own code, as far as it runs on a CPU.

Each is skipped unless its source folder is on PYTHONPATH with what it imports: NeMo-RL, AReaL,
MindSpeed-RL, prime-rl. What they import that has no part in the order (an NPU's driver, the
types of prime-rl's environments) is stood in for.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.trainers.handed_over import TRAIN_BATCH, hand_over, planned_batches, sidecar


def test_nemo_rls_dataset_keeps_the_order_unless_it_splits(tmp_path: Path) -> None:
    module = pytest.importorskip("nemo_rl.data.datasets.response_datasets.response_dataset")
    folder = hand_over(tmp_path, "nemo-rl", is_text=True)
    text = (folder / "overrides.txt").read_text()
    assert "+data.train.input_key=prompt\n" in text
    keys = {"input_key": "prompt", "output_key": "answer"}

    def answers(split_validation_size: float) -> list[int]:
        path = str(folder / "prompts.parquet")
        made = module.ResponseDataset(path, split_validation_size=split_validation_size, **keys)
        return [int(messages[1]["content"]) for messages in made.dataset["messages"]]

    assert answers(0) == sidecar(folder)["row_prompt_ids"]
    left = answers(0.1)
    assert left != sidecar(folder)["row_prompt_ids"][: len(left)]


def test_areal_loads_the_planned_batches(tmp_path: Path) -> None:
    dataloader = pytest.importorskip("areal.utils.dataloader")
    from areal.api.cli_args import TrainDatasetConfig
    from areal.dataset import get_custom_dataset
    from datasets import load_dataset

    folder = hand_over(tmp_path, "areal")
    path, cache = str(folder / "prompts.parquet"), str(tmp_path / "cache")
    saved = load_dataset("parquet", data_files=path, split="train", cache_dir=cache)
    saved.save_to_disk(str(folder / "dataset"))

    def batches(shuffle: bool) -> list[list[int]]:
        """Read here, not by a data service (scheduling_spec), whose order is the same sampler's."""
        config = TrainDatasetConfig(
            path=str(folder / "dataset"), type="rl", batch_size=TRAIN_BATCH, shuffle=shuffle,
            num_workers=0, scheduling_spec=None,
        )  # fmt: skip
        loaded = get_custom_dataset(split="train", dataset_config=config, tokenizer=None)
        loader = dataloader.create_dataloader(loaded, 0, 1, config)
        return [[row["extra_info"]["index"] for row in batch] for batch in loader]

    assert batches(False) == planned_batches(folder)
    assert batches(True) != planned_batches(folder)


@pytest.fixture
def no_npu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """MindSpeed-RL's loader, from its file: its package asks for an NPU when it is imported."""
    found = [Path(p) / "mindspeed_rl" for p in sys.path if (Path(p) / "mindspeed_rl").is_dir()]
    if not found:
        pytest.skip("no mindspeed_rl on the path")
    for name, where in {"mindspeed_rl": "", "mindspeed_rl.datasets": "datasets"}.items():
        package = ModuleType(name)
        package.__path__ = [str(found[0] / where)]
        monkeypatch.setitem(sys.modules, name, package)
    yield importlib.import_module("mindspeed_rl.datasets.dataloader")
    sys.modules.pop("mindspeed_rl.datasets.dataloader", None)
    sys.modules.pop("mindspeed_rl.datasets.data_samplers", None)


def test_mindspeed_rl_loads_the_planned_batches(no_npu: Any, tmp_path: Path) -> None:
    folder = hand_over(tmp_path, "mindspeed-rl")
    rows = [{"input_ids": [i], "labels": [i]} for i in sidecar(folder)["row_prompt_ids"]]

    def batches(no_shuffle: bool) -> list[list[int]]:
        loader = no_npu.PromptDataLoader(rows, TRAIN_BATCH, 0, 42, ["labels"], no_shuffle)
        return [[int(prompt[0]) for prompt in batch["prompts"]] for batch in loader]

    assert batches(True) == planned_batches(folder)
    assert batches(False) != planned_batches(folder)


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The types of prime-rl's environments, where they are not installed."""
    if importlib.util.find_spec("verifiers") is None:
        package, v1 = ModuleType("verifiers"), ModuleType("verifiers.v1")
        v1.Task, v1.Episode, package.v1 = SimpleNamespace, SimpleNamespace, v1  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "verifiers", package)
        monkeypatch.setitem(sys.modules, "verifiers.v1", v1)
    yield


def test_prime_rls_sampler_draws_tasks_in_order_and_resumes(
    environments: None, tmp_path: Path
) -> None:
    pytest.importorskip("prime_rl.orchestrator")
    from prime_rl.orchestrator.curriculum.samplers import StandardSampler

    folder = hand_over(tmp_path, "prime-rl")
    tasks = [SimpleNamespace(key=str(row)) for row in range(sidecar(folder)["num_rows"])]
    sampler = StandardSampler(tasks)
    drawn = [next(sampler) for _ in range(5)]
    resumed = StandardSampler(tasks)
    resumed.load_state_dict(sampler.state_dict())
    assert drawn + [next(resumed) for _ in tasks[5:]] == tasks
    assert next(resumed) is tasks[0]
