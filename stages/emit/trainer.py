"""What a trainer is to `emit`: what it is told of a hand-over, and what it answers.

A trainer is one small file that fills a `Trainer`; `trainers/` has them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from stages.emit.batches import TrainBatch, count_straddling
from stages.emit.overlong import Overlong
from stages.emit.plan import spans
from stages.emit.remainder import Treated

Settings = dict[str, Any]
FOLDER = "${ASP_DIR}"  # stands for the directory's absolute path, which emit cannot know


@dataclass(frozen=True)
class Handover:
    """What is handed over: the user's rows in schedule order, cut into fixed train batches."""

    data_file: str  # the user's rows, a name inside the directory
    prompt_column: str
    has_text_prompts: bool  # text, or else lists of {role, content}
    num_epochs: int  # passes over the prompts that the data file holds, one after the other
    samples_per_prompt: int  # responses a prompt, the n of training
    batch: TrainBatch
    treated: Treated
    num_instances: int = 0  # that minibatches were placed on; 0: none was
    has_budgets: bool = False  # the schedule cuts responses at token budgets
    overlong: Overlong | None = None  # prompts that were taken out beforehand

    @property
    def num_rows(self) -> int:
        """Rows of the data file."""
        return len(self.treated.plan)

    @property
    def passes(self) -> str:
        """How often the data file goes through the prompts, in words."""
        return (
            "one pass over the prompts"
            if self.num_epochs == 1
            else (f"{self.num_epochs} passes over the prompts, each in its own order")
        )

    @property
    def num_train_batches(self) -> int:
        """Full batches, which the trainer makes of one pass over the data file."""
        return self.num_rows // self.batch.size

    @cached_property
    def num_groups(self) -> int:
        """Batch groups that have rows in the data file."""
        return len(spans(self.treated.plan, "group_id"))

    @cached_property
    def num_straddling_groups(self) -> int:
        """Batch groups that train batches cut across."""
        return count_straddling(self.treated.plan, self.batch.size)


@dataclass(frozen=True)
class Follows:
    """What a trainer keeps of a schedule: a line of the table in the README and of `--list`.

    `checked` tells what was read, and what was run. `proof` is "run" only if all of the trainer's
    own code that decides the order was run over emitted files, else "contract": read in its source,
    and tested against that reading.
    """

    order: Literal["settings", "shipped code"]  # what keeps it
    batches: Literal["kept", "kept, a step late", "by completion"]
    sizes: Literal["fixed", "varying"]  # prompts a step
    instances: Literal["shipped code", "no"]
    partial_rollouts: Literal["settings", "unsupported"]
    checked: str
    proof: Literal["run", "contract"]


def no_concerns(handover: Handover) -> list[str]:
    """Nothing in a hand-over that this trainer would stumble over."""
    return []


@dataclass(frozen=True)
class Trainer:
    """How one trainer is made to follow an ordered file."""

    name: str
    title: str  # as its makers write it
    follows: Follows
    settings: Callable[[Handover], Settings]
    settings_file: str
    render: Callable[[Settings], str]  # the text of settings_file
    notes: Callable[[Handover], str]  # Markdown: how to run it, and its traps
    concerns: Callable[[Handover], list[str]] = no_concerns  # what the user must look at
    filters: str = ""  # settings by which it drops prompts after generation
    carries_columns: bool = True  # whether columns of a row beside its prompt are read
    place_column: str | None = None  # numbers the rows, for a plugin that places them
    skips_remainder: bool = True  # prompts that fill no batch are not trained on
    plugins: tuple[str, ...] = ()  # files of plugins/ that go along
    files: Mapping[str, str] = field(default_factory=dict)  # further small files, by name

    @property
    def cuts_batches(self) -> bool:
        """Whether every so many rows of the file make a training step."""
        return self.follows.batches != "by completion"
