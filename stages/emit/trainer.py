"""What a trainer is to `emit`: what it is told of a hand-over, and what it answers.

A trainer is one small file that fills a `Trainer`; `trainers.py` lists them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stages.emit.batches import TrainBatch, count_straddling
from stages.emit.plan import spans
from stages.emit.remainder import Treated

Settings = dict[str, Any]


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
class Trainer:
    """How one trainer is made to follow an ordered file."""

    name: str
    title: str  # as its makers write it
    checked_versions: str  # what the contract was read in, and what was run
    settings: Callable[[Handover], Settings]
    settings_file: str
    render: Callable[[Settings], str]  # the text of settings_file
    concerns: Callable[[Handover], list[str]]  # what in this hand-over the user must look at
    notes: Callable[[Handover], str]  # Markdown: how to run it, and its traps
