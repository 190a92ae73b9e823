"""Which prompts does a reasoning-gym task make?

A row a prompt: `prompt`, the question and where to put the answer; `domain` and `task`, the task's
name; `entry`, as JSON, what its verifier wants to know. The reward `reasoning-gym` reads the last
two.

    python -m rollout.trainer.tasks maze --num-prompts 512 --config '{"max_grid_size": 8}' -o FILE
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import polars as pl

from rollout.trainer.rewards.reasoning_gym import factory, verifier
from stages.tables.errors import AspError
from stages.tables.io import check_output, write_table
from stages.tables.prompts import prompt_hash
from stages.tables.provenance import Provenance
from stages.tables.schemas import Prompts

Entry = dict[str, Any]

SEED_STRIDE = 10**6  # reasoning-gym's entry i under seed s is its entry 0 under seed s + i
MAX_TRIES = 100  # entries made for a prompt that is wanted, before a task counts as exhausted
FORMAT = "\nReason step by step, then give the final answer between <answer> and </answer>."


def plain_prompt(entry: Entry) -> str:
    """The question, and where the answer is to stand."""
    return f"{entry['question']}{FORMAT}"


def make_prompts(
    task: str,
    config: dict[str, Any],
    seed: int,
    num_prompts: int,
    prompt_of: Callable[[Entry], str] = plain_prompt,
) -> pl.DataFrame:
    """So many different prompts of a task.

    Raises:
        AspError: As `entries`; too few of its prompts differ; JSON does not carry its entries.
    """
    rows: dict[str, str] = {}  # entry by prompt
    for entry in islice(entries(task, config, seed), MAX_TRIES * num_prompts):
        if len(rows) == num_prompts:
            break
        rows.setdefault(prompt_of(entry), _to_json(task, entry))
    if len(rows) < num_prompts:
        raise AspError(
            f"--num-prompts {num_prompts}: reasoning-gym task {task!r} made only {len(rows)} that "
            "differ; give fewer, or another --config"
        )
    return pl.DataFrame(
        {
            "prompt_id": range(num_prompts),
            "prompt_hash": map(prompt_hash, rows),
            "prompt": rows.keys(),
            "domain": [task] * num_prompts,
            "task": [task] * num_prompts,
            "entry": rows.values(),
        }
    )


def entries(task: str, config: dict[str, Any], seed: int) -> Iterator[Entry]:
    """The entries that a task makes, without those that chance makes it fail at.

    Raises:
        AspError: The task is unknown or refused, or its configuration is not one.
    """
    made = factory(task)
    settings = {**config, "seed": seed * SEED_STRIDE, "size": SEED_STRIDE}
    try:
        dataset = made.create_dataset(task, **settings)
    except (TypeError, ValueError, AssertionError) as error:
        raise AspError(f"--config of reasoning-gym task {task!r}: {error}") from None
    for index in range(SEED_STRIDE):
        with suppress(RuntimeError, ValueError):
            yield dataset[index]


def _to_json(task: str, entry: Entry) -> str:
    """The entry as JSON, from which the verifier judges its answer as it does before."""
    verify = verifier(task)
    try:
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False)
        is_carried = verify(entry["answer"], json.loads(text)) == verify(entry["answer"], entry)
    except (TypeError, ValueError, KeyError):
        is_carried = False
    if not is_carried:
        raise AspError(f"reasoning-gym task {task!r}: JSON does not carry what its verifier needs")
    return text


def main(arguments: list[str] | None = None) -> None:
    """Write a task's prompts; exit with 1 and one line where that is a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m rollout.trainer.tasks", description="Prompts of a reasoning-gym task."
    )
    parser.add_argument("task", help="name of the task: maze, countdown, ...")
    parser.add_argument("--num-prompts", type=int, default=512, metavar="N", help="[%(default)s]")
    parser.add_argument("--config", type=json.loads, default={}, help="task's settings, as JSON")
    parser.add_argument("--seed", type=int, default=0, help="[%(default)s]")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="Parquet")
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    flags = parser.parse_args(arguments)
    try:
        check_output(flags.output, flags.force)
        prompts = make_prompts(flags.task, flags.config, flags.seed, flags.num_prompts)
        write_prompts(prompts, flags.config, flags.seed, flags.output, flags.force)
    except AspError as error:
        sys.exit(f"tasks: error: {error}")


def write_prompts(
    prompts: pl.DataFrame, config: dict[str, Any], seed: int, path: str, force: bool
) -> None:
    """Write what `make_prompts` made.

    Raises:
        AspError: The output exists and `force` is not set, or cannot be written.
    """
    provenance = Provenance("tasks", "prompts/1", config, seed)
    write_table(prompts, Prompts, path, provenance, force)


if __name__ == "__main__":
    main()
