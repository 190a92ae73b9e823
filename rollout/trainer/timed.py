"""What would a Training Unit take, in scaled real time, without a model?

Its weights are the list of what they were trained on, step by step. So a run that was killed and
resumed can be asked what its surviving weights have seen, and how often.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rollout.simulator.cluster import TrainingUnit as TrainingCost
from rollout.trainer.engines.timed import WEIGHTS_FILE, Sleeper, read_weights
from rollout.trainer.samples import SampleGroup
from rollout.trainer.sealed import sealed_directory
from rollout.trainer.snapshots import Snapshots


@dataclass(frozen=True)
class TimedTraining:
    """How long things take."""

    cost: TrainingCost
    num_devices: int  # that train: of the Training Unit, or, colocated, of all actors
    switching_seconds: float  # each way; 0 where it has devices of its own
    scale: float  # real seconds a second of the cost model


@dataclass(frozen=True)
class TimedMetrics:
    """What a step did."""

    version: int  # that it made
    num_groups: int  # consumed
    reward_mean: float  # of the samples
    seconds: float  # that it took, before they are scaled


class TimedTrainer:
    """Trains by sleeping."""

    def __init__(self, pace: TimedTraining) -> None:
        self._pace = pace
        self._sleeper = Sleeper(pace.scale)
        self._trained: list[list[int]] = []  # sample groups, by step

    @property
    def version(self) -> int:
        """Steps made."""
        return len(self._trained)

    def train(self, groups: Sequence[SampleGroup]) -> TimedMetrics:
        """By its tokens of prompts and responses."""
        self._sleeper.start()
        samples = [sample for group in groups for sample in group.samples]
        tokens = sum(len(sample.prompt_ids) + len(sample.token_ids) for sample in samples)
        seconds = 0.0
        if groups:
            seconds = self._pace.cost.train_seconds(tokens, self._pace.num_devices)
            self._sleeper.sleep(self._pace.switching_seconds + seconds)
        self._trained.append([group.group for group in groups])
        reward = sum(sample.reward for sample in samples) / max(1, len(samples))
        return TimedMetrics(self.version, len(groups), reward, seconds)

    def publish(self, snapshots: Snapshots) -> None:
        """Export, and the way back of devices that switch; where a step changed something."""
        self._sleeper.start()
        with snapshots.new(self.version) as folder:
            self._write(folder)
        if self._trained and self._trained[-1]:
            self._sleeper.sleep(self._pace.cost.export_seconds + self._pace.switching_seconds)

    def save(self, path: Path) -> None:
        """Takes no time."""
        with sealed_directory(path, {"version": self.version}) as folder:
            self._write(folder)

    def load(self, path: Path) -> None:
        """As saved."""
        self._trained = read_weights(path)["trained"]

    def _write(self, folder: Path) -> None:
        (folder / WEIGHTS_FILE).write_text(json.dumps({"trained": self._trained}))
