"""What does a run with a model consist of?

In: a model directory, the user's prompts, a reward. Nothing that imports torch is imported here:
engines and Training Unit are opened in processes of their own.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from rollout.control.plan import Plan
from rollout.simulator.cluster import GenerationUnit
from rollout.trainer.config import ModelConfig
from rollout.trainer.engines.engine import Engine
from rollout.trainer.machine import Machine, Scores
from rollout.trainer.rewards.load import load_reward
from rollout.trainer.units import Trainer
from stages.lengths import table as lengths_table
from stages.tables.errors import AspError
from stages.tables.io import Table, read_table
from stages.tables.prompt_survey import PromptFile, read_prompts
from stages.tables.prompts import parse_records
from stages.tables.provenance import Input
from stages.tables.schemas import Lengths
from stages.tables.stream import readable_twice


@dataclass(frozen=True)
class ModelInputs:
    """What is read."""

    prompts: PromptFile
    rows: list[dict[str, Any]]  # of the prompt file
    lengths: Table | None  # from which the schedule was made

    @property
    def footer(self) -> tuple[Input, ...]:
        """Of what a run makes."""
        of_lengths = self.lengths and Input("lengths", self.lengths.sha256, self.lengths.provenance)
        return (Input("prompts", self.prompts.sha256), *([of_lengths] if of_lengths else []))

    def known(self, max_response_tokens: int) -> pl.DataFrame:
        """What a profile says of each prompt, whatever it was answered."""
        cap = pl.lit(max_response_tokens, pl.Int64)
        return self.prompts.frame.with_columns(max_response_tokens=cap)

    def texts(self, plan: Plan) -> dict[int, str]:
        """Canonical text of each prompt of a plan."""
        texts = self.prompts.frame["prompt"].to_list()
        return {prompt: texts[prompt] for prompt in dict.fromkeys(plan.prompt_g)}


def read_model(config: ModelConfig) -> ModelInputs:
    """Read the prompts, and see that reward and model are there.

    Raises:
        AspError: One is bad.
    """
    load_reward(config.reward, os.getcwd())
    if not (Path(config.model) / "config.json").is_file():
        raise AspError(f"--model {config.model}: holds no config.json; give a model's directory")
    with readable_twice(config.prompts) as (name, file):
        prompts = replace(read_prompts(str(file), config.prompt_column), name=name)
        rows = parse_records(name, file.read_bytes()).to_dicts()
    lengths = config.lengths and read_table(config.lengths, Lengths, lengths_table.complete)
    return ModelInputs(prompts, rows, lengths or None)


def model_machine(found: ModelInputs, config: ModelConfig, seed: int) -> Machine:
    """The machine."""
    from stages.tokens.tokenizer import PromptTokenizer

    # Other processes may stand elsewhere.
    config = replace(config, model=str(Path(config.model).resolve()))
    assert config.max_response_tokens is not None, "filled in when the schedule was read"
    tokenizer = PromptTokenizer(config.model, "--model")
    return Machine(
        units=(GenerationUnit(config.actors, 1, config.slots),) * config.units,
        is_static=config.batching == "static",
        open_engine=partial(_open_engine, config, seed),
        open_trainer=partial(_open_trainer, config, seed),
        num_training_devices=1,
        prompt_ids={
            prompt: tokenizer.encode_prompt(raw) for prompt, raw in enumerate(found.prompts.raw)
        },
        cap=config.max_response_tokens,
        scores=Scores(
            partial(load_reward, config.reward, os.getcwd()),
            partial(_open_decode, config.model),
            found.rows,
        ),
    )


def _open_engine(config: ModelConfig, seed: int, unit: int, place: int) -> Engine:
    from rollout.trainer.engines.transformers import TransformersEngine

    number = unit * config.actors + place
    return TransformersEngine(config.slots, config.temperature, seed * 1009 + number)


def _open_trainer(config: ModelConfig, seed: int) -> Trainer:
    import torch

    from rollout.trainer.training_settings import TrainingSettings
    from rollout.trainer.training_unit import TrainingUnit

    torch.manual_seed(seed)
    settings = TrainingSettings(
        temperature=config.temperature,
        loss=config.loss,
        max_response_tokens=config.max_response_tokens,
        kl_coefficient=config.kl_coefficient,
        lag_correction=config.lag_correction,
        learning_rate=config.learning_rate,
    )
    return TrainingUnit(Path(config.model), settings)


def _open_decode(model: str) -> Callable[[Sequence[int]], str]:
    from stages.tokens.tokenizer import PromptTokenizer

    tokenizer = PromptTokenizer(model, "--model").tokenizer
    return partial(tokenizer.decode, skip_special_tokens=True)
