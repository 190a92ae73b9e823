"""What does a training step do to the model?

    groups -> advantages -> micro-batches -> log-probabilities -> loss -> gradient -> AdamW

    unit = TrainingUnit(Path("model"), TrainingSettings(temperature=1.0))
    metrics = unit.train(groups)              # one step; the version goes up by one
    unit.publish(Snapshots(Path("run/snapshots")))

The weights are kept in float32: in bfloat16, with its 8 bits, most updates of a learning rate of
1e-6 would round to nothing. On a GPU the forward pass and the snapshots are bfloat16.
"""

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from rollout.trainer import checkpoint
from rollout.trainer.advantages import Judged, judge
from rollout.trainer.devices import Devices, named_weights, whole
from rollout.trainer.losses import token_losses
from rollout.trainer.policy import Rows, cut_by_tokens, lay_out, score
from rollout.trainer.samples import SampleGroup
from rollout.trainer.sealed import SEAL
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.step_metrics import StepMetrics, Tally
from rollout.trainer.training_settings import TrainingSettings
from stages.tables.errors import AspError
from stages.tokens.tokenizer import load_pretrained

_BESIDE_WEIGHTS = (".bpe", ".jinja", ".json", ".model", ".py", ".tiktoken", ".txt")
_TEMPLATES = "additional_chat_templates"  # the one folder of a model that transformers reads


@dataclass(frozen=True, eq=False)
class _MicroBatch:
    rows: Rows
    advantage_t: Tensor
    weight_t: Tensor  # share of each token in the loss of the step
    behaviour_t: Tensor  # log-probability under the weights that drew it
    old_t: Tensor | None  # under those of the start of the step; None: they are the present ones
    reference_t: Tensor | None
    is_counted: bool  # False: a repeat, since every process must make as many passes


class TrainingUnit:
    """A model with its optimiser, in this process or spread over several.

    Every process is given the same groups and takes its share of the micro-batches.
    """

    def __init__(
        self,
        model_dir: Path,
        settings: TrainingSettings,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Load a model directory; its policy version is 0.

        Args:
            model_dir: Weights, config and tokenizer.
            settings: How to learn; with a KL term, towards the model as it is there.
            clock: Seconds, for the metrics.

        Raises:
            AspError: The directory holds no model that can be loaded.
        """
        self.version = 0
        self._settings = settings
        self._model_dir = model_dir
        self._clock = clock
        self._devices = Devices()
        self._model = self._devices.spread(_load(model_dir))
        self._reference = None
        if settings.kl_coefficient > 0:
            self._reference = self._devices.spread(_load(model_dir).requires_grad_(False))
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
        )

    def train(self, groups: Sequence[SampleGroup]) -> StepMetrics:
        """Train on complete sample groups: one step.

        The gradient is that of the whole step's loss, whatever the micro-batches. Where no sample
        takes part in the loss the weights stay as they are, momentum and weight decay included;
        the groups are consumed and the version goes up all the same.

        Raises:
            AspError: A reward or the gradient is not finite; the weights are as before the update.
                Or the GPU's memory does not hold a micro-batch.
        """
        start_s = self._clock()
        judged = judge(groups, self._settings)
        tally = Tally()
        grad_norm = 0.0
        if judged:
            try:
                batches = self._micro_batches(judged)
                for _ in range(self._settings.updates_per_step):
                    grad_norm += self._update(batches, tally) / self._settings.updates_per_step
            except torch.cuda.OutOfMemoryError:
                raise AspError(
                    f"training step {self.version}: the GPU's memory does not hold a micro-batch; "
                    "the same command with a --tokens-per-micro-batch below "
                    f"{self._settings.tokens_per_micro_batch} goes on from the last checkpoint"
                ) from None
        self.version += 1
        counted = [group for group in groups if not group.is_masked]
        rewards = [[sample.reward for sample in group.samples] for group in counted]
        flat = [reward for group in rewards for reward in group]
        return StepMetrics(
            version=self.version,
            num_groups=len(groups),
            num_masked=len(groups) - len(counted),
            num_even=sum(len(set(group)) == 1 for group in rewards),
            num_tokens=sum(len(sample.sample.token_ids) for sample in judged),
            reward_mean=sum(flat) / max(len(flat), 1),
            **tally.means(self._devices, self._settings.updates_per_step),
            grad_norm=grad_norm,
            seconds=self._clock() - start_s,
        )

    def publish(self, snapshots: Snapshots) -> None:
        """Write the present weights as the snapshot of their version; the first process does.

        Raises:
            AspError: They can't be written, for want of room for instance; nothing is left.
        """
        dtype = torch.bfloat16 if self._devices.device.type == "cuda" else torch.float32
        weights = {}
        for name, values in named_weights(self._model):
            gathered = whole(values)
            if self._devices.is_first:
                weights[name] = gathered.to(dtype) if gathered.is_floating_point() else gathered
        if self._devices.is_first:
            with snapshots.new(self.version) as folder:
                _copy_beside_weights(self._model_dir, folder)
                self._model.save_pretrained(folder, state_dict=weights)
        self._devices.wait()

    def save(self, path: Path) -> None:
        """Write weights, optimiser, version and random state, sealed; the first process does.

        Raises:
            AspError: They can't be written; nothing is left, and what was there stays.
        """
        checkpoint.save(path, self._model, self._optimizer, self.version, self._devices)

    def load(self, path: Path) -> None:
        """Go on from what `save` wrote, with as many processes or with others.

        Raises:
            AspError: It is damaged, or of another model.
        """
        self.version = checkpoint.load(path, self._model, self._optimizer)

    def _micro_batches(self, judged: Sequence[Judged]) -> list[_MicroBatch]:
        """This process's share; what stays as it is during the step is computed here."""
        widths = [len(j.sample.prompt_ids) + len(j.sample.token_ids) for j in judged]
        cuts = cut_by_tokens(widths, self._settings.tokens_per_micro_batch)
        rank, size = self._devices.rank, self._devices.size
        share = [(cut, True) for cut in cuts[rank::size]]
        share += [(cuts[-1], False)] * (-(-len(cuts) // size) - len(share))
        return [self._prepare([judged[place] for place in cut], counted) for cut, counted in share]

    def _prepare(self, judged: Sequence[Judged], is_counted: bool) -> _MicroBatch:
        samples = [sample.sample for sample in judged]
        rows = lay_out(samples, self._devices.device)
        behaviour = [torch.from_numpy(sample.logprobs_t) for sample in samples]
        weights = [sample.token_weight if is_counted else 0.0 for sample in judged]
        old = reference = None
        with torch.no_grad():
            if self._settings.updates_per_step > 1:
                old, _ = score(self._model, rows, self._settings.temperature)
            if self._reference is not None:
                reference, _ = score(self._reference, rows, self._settings.temperature)
        return _MicroBatch(
            rows,
            rows.spread([sample.advantage for sample in judged]),
            rows.spread(weights),
            torch.cat(behaviour).float().to(self._devices.device),
            old,
            reference,
            is_counted,
        )

    def _update(self, batches: Sequence[_MicroBatch], tally: Tally) -> float:
        """One step of the optimiser on the gradient of all micro-batches; return its norm."""
        for batch in batches:
            logprob_t, entropy_t = score(self._model, batch.rows, self._settings.temperature)
            old_t = logprob_t.detach() if batch.old_t is None else batch.old_t
            losses = token_losses(
                logprob_t, old_t, batch.behaviour_t, batch.reference_t, batch.advantage_t,
                self._settings,
            )  # fmt: skip
            loss = (batch.weight_t * losses.loss_t).sum()
            # FSDP averages gradients over processes; this loss is a sum over them.
            torch.autograd.backward(loss * self._devices.size)
            if batch.is_counted:
                tally.add(float(loss.detach()), entropy_t, losses)
        norm = torch.nn.utils.clip_grad_norm_(
            self._model.parameters(), self._settings.max_grad_norm
        )
        grad_norm = float(whole(norm))
        if not math.isfinite(grad_norm):
            self._optimizer.zero_grad()
            raise AspError(
                f"training step {self.version}: the gradient is {grad_norm}; the weights are as "
                "before it; the same command tries again from the last checkpoint, --force with a "
                "lower --learning-rate from the start"
            )
        self._optimizer.step()
        self._optimizer.zero_grad()
        return grad_norm


def _copy_beside_weights(model_dir: Path, folder: Path) -> None:
    """Config, tokenizer and code of a model; nothing else that lies there, a run least of all."""
    for path in model_dir.iterdir():
        is_index = path.name.endswith(".index.json") or path.name == SEAL
        if path.is_file() and path.suffix in _BESIDE_WEIGHTS and not is_index:
            shutil.copy2(path, folder)
    if (model_dir / _TEMPLATES).is_dir():
        shutil.copytree(model_dir / _TEMPLATES, folder / _TEMPLATES)


def _load(folder: Path) -> Any:
    model = load_pretrained(
        lambda: AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32),
        str(folder), "--model", "a language model",
    )  # fmt: skip
    return model.eval()  # no dropout: both policies of a ratio must be the same function
