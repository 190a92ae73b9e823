"""Launchers of trainers that cannot be run here, against what their source promises.

Each promise is a few modules written out under the trainer's names: the calls that the launcher
relies on, and the shuffling that it must undo. `contract` in the table of trainers means this.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stages.emit.trainers import TRAINERS
from tests.trainers.handed_over import hand_over, on_path, sidecar

OPENRLHF = {  # 0.11.0: openrlhf/trainer/ppo_trainer.py, utils/deepspeed/deepspeed.py
    "openrlhf/utils/__init__.py": """
def get_strategy(args):
    from openrlhf.utils.deepspeed import DeepspeedStrategy
    return DeepspeedStrategy()
""",
    "openrlhf/utils/deepspeed.py": """
from torch.utils.data import DataLoader
class DeepspeedStrategy:
    def setup_dataloader(self, replay_buffer, batch_size, pin_memory=False, shuffle=True,
                         collate_fn=None, drop_last=True, sampler=None, consumed_samples=0,
                         num_workers=0):
        return DataLoader(replay_buffer, batch_size=batch_size, sampler=sampler,
                          drop_last=drop_last, shuffle=shuffle if sampler is None else False,
                          collate_fn=collate_fn, num_workers=num_workers)
""",
    "openrlhf/datasets.py": """
class PromptDataset(list):
    pass
""",
    "openrlhf/cli/train_ppo_ray.py": """
import json, sys
from openrlhf.datasets import PromptDataset
from openrlhf.utils import get_strategy
strategy = get_strategy(None)
rows = PromptDataset(range(int(sys.argv[1])))
loaders = [strategy.setup_dataloader(rows, 1, False, shuffle, list, num_workers=0)
           for shuffle in (True, False)]
print(json.dumps([[row for batch in loader for row in batch] for loader in loaders]))
""",
}

ROLL = {  # 0.3.0: roll/distributed/scheduler/generate_scheduler.py, pipeline/rlvr/rlvr_pipeline.py
    "roll/distributed/scheduler/generate_scheduler.py": """
import random
class DynamicSamplingScheduler:
    def __init__(self, pipeline_config, dataset, state=None, is_val=False):
        self.dataset, self.is_val, self.indices = dataset, is_val, list(range(len(dataset)))
        self.dataset_iter, self.dataset_iter_count = None, 0
        for _ in range((state or {}).get("dataset_iter_count", 0)):
            self.get_next_dataset_item()
    def get_next_dataset_item(self):
        if self.dataset_iter is None:
            random.seed(42)
            random.shuffle(self.indices)
            self.dataset_iter = iter(self.indices)
        self.dataset_iter_count += 1
        return self.dataset[next(self.dataset_iter)]
    def get_scheduler_state(self):
        return {"dataset_iter_count": self.dataset_iter_count}
""",
    "roll/pipeline/rlvr/rlvr_pipeline.py": """
from roll.distributed.scheduler.generate_scheduler import DynamicSamplingScheduler
def draw(count, **options):
    scheduler = DynamicSamplingScheduler(pipeline_config=None, **options)
    return [scheduler.get_next_dataset_item() for _ in range(count)], scheduler
""",
    "start.py": """
import json, sys
from roll.pipeline.rlvr.rlvr_pipeline import draw
rows = list(range(int(sys.argv[1])))
first, scheduler = draw(7, dataset=rows)
rest, _ = draw(len(rows) - 7, dataset=rows, state=scheduler.get_scheduler_state())
again, _ = draw(2, dataset=rows, state={"dataset_iter_count": len(rows)})
validation, _ = draw(len(rows), dataset=rows, is_val=True)
print(json.dumps([first + rest, again, validation]))
""",
}

SKYRL = {  # a9564572: skyrl/train/trainer.py, utils/trainer_utils.py, entrypoints/main_base.py
    "skyrl/train/config.py": """
class SkyRLTrainConfig:
    @classmethod
    def from_cli_overrides(cls, arguments):
        return cls()
""",
    "skyrl/train/utils/__init__.py": "def validate_cfg(cfg): pass\n",
    "skyrl/train/utils/utils.py": "def initialize_ray(cfg): pass\n",
    "skyrl/train/trainer.py": """
from torch.utils.data import DataLoader
class RayPPOTrainer:
    def __init__(self, cfg, train_dataset):
        self.cfg, self.train_dataset = cfg, train_dataset
        self._build_train_dataloader_and_compute_training_steps()
    def _build_train_dataloader_and_compute_training_steps(self):
        self.train_dataloader = DataLoader(self.train_dataset, batch_size=4, shuffle=True,
                                           collate_fn=list, num_workers=0, drop_last=True)
        self.total_training_steps = len(self.train_dataloader)
""",
    "skyrl/train/entrypoints/main_base.py": """
from skyrl.train.trainer import RayPPOTrainer
class BasePPOExp:
    def __init__(self, cfg):
        self.cfg = cfg
    def get_trainer(self, *args, **options):
        return RayPPOTrainer(*args, **options)
""",
    "torchdata/stateful_dataloader.py": "from torch.utils.data import DataLoader\n"
    "StatefulDataLoader = DataLoader\n",
}


@pytest.fixture
def promised(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The modules of a promise on the path; skipped where the trainer itself is installed."""
    folder = tmp_path / "promised"
    for name, text in request.param.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    roots = {name.split("/")[0] for name in request.param}
    if roots & set(sys.modules):
        pytest.skip("the trainer itself is imported")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in list(sys.modules):
        if name.split(".")[0] in roots:
            del sys.modules[name]


@pytest.mark.parametrize("promised", [OPENRLHF], indirect=True, ids=["0.11"])
def test_openrlhf_draws_training_prompts_in_order(
    promised: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = hand_over(tmp_path, "openrlhf")
    num_rows = sidecar(folder)["num_rows"]
    monkeypatch.setattr(sys, "argv", ["asp_openrlhf", str(num_rows)])
    with on_path(folder):
        import asp_openrlhf

        asp_openrlhf.main()
    training, evaluation = json.loads(capsys.readouterr().out)
    assert training == evaluation == list(range(num_rows))


@pytest.mark.parametrize("promised", [ROLL], indirect=True, ids=["0.3"])
def test_roll_draws_training_prompts_in_order_and_resumes(
    promised: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = hand_over(tmp_path, "roll")
    num_rows = sidecar(folder)["num_rows"]
    monkeypatch.setattr(sys, "argv", ["asp_roll", str(promised / "start.py"), str(num_rows)])
    with on_path(folder):
        import asp_roll

        asp_roll.main()
        with pytest.raises(ValueError, match="has 3 rows"):
            asp_roll.PlannedSampling(pipeline_config=None, dataset=[1, 2, 3])
    training, again, validation = json.loads(capsys.readouterr().out)
    assert training == list(range(num_rows)) and again == [0, 1]
    assert sorted(validation) == training != validation


@pytest.mark.parametrize("promised", [SKYRL], indirect=True, ids=["a9564572"])
def test_skyrls_trainer_takes_planned_batches(promised: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    folder = hand_over(tmp_path, "skyrl")
    rows = list(range(sidecar(folder)["num_rows"]))
    with on_path(folder):
        from asp_skyrl import ScheduledExp

        trainer = ScheduledExp(None).get_trainer(None, rows)
    assert list(trainer.train_dataloader) == [rows[n : n + 4] for n in range(0, len(rows), 4)]
    assert trainer.total_training_steps == len(trainer.train_dataloader)


SETTINGS = {  # of trainers whose settings alone keep the order
    "nemo-rl": """
data.train.dataset_name=ResponseDataset
data.train.data_path=${ASP_DIR}/prompts.parquet
+data.train.input_key=prompt
data.train.split_validation_size=0
data.shuffle=False
data.use_multiple_dataloader=False
grpo.num_prompts_per_step=4
grpo.num_generations_per_prompt=2
grpo.use_dynamic_sampling=False
grpo.batch_multiplier=1
grpo.max_num_epochs=1
policy.train_global_batch_size=8
""",
    "areal": """
total_train_epochs: 1
train_dataset:
  path: "${ASP_DIR}/dataset"
  type: "rl"
  batch_size: 4
  shuffle: false
  num_workers: 0
  max_length: null
rollout:
  consumer_batch_size: 4
  max_head_offpolicyness: 0
gconfig:
  n_samples: 2
dynamic_bs: false
""",
    "mindspeed-rl": """
megatron_training:
  no_shuffle: true
  full_shuffle_instruction_dataset: false
  global_batch_size: 4
  train_iters: 12
rl_config:
  n_samples_per_prompt: 2
  guarantee_order: true
  shuffle_mini_batch: false
""",
    "prime-rl": """
[orchestrator]
batch_size = 8
group_size = 2
max_steps = 12
""",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_name_the_keys_that_were_read_in_the_source(name: str, tmp_path: Path) -> None:
    folder = hand_over(tmp_path, name)
    written = (folder / TRAINERS[name].settings_file).read_text()
    assert written.strip() == SETTINGS[name].strip()
