"""What does a run with a model consist of?

In: a model directory, the user's prompts, a reward. Nothing that imports torch is imported here:
engines and Training Unit are opened in processes of their own.
"""

import json
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
from stages.profile.engine import check_installed
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
    check_installed(config.engine)
    if config.engine == "vllm" and config.actors > 1:
        raise AspError(
            f"--actors {config.actors}: a process holds one engine of vLLM; give more --units"
        )
    with readable_twice(config.prompts) as (name, file):
        # Two readings of one file: a prompt's text is what its own row holds, whatever others do; a
        # reward's row has the columns of all rows, null where it lacks one.
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
    prompt_ids = {
        prompt: tokenizer.encode_prompt(raw) for prompt, raw in enumerate(found.prompts.raw)
    }
    room = max(map(len, prompt_ids.values())) + config.max_response_tokens
    usual = "continuous" if config.engine == "vllm" else "static"
    if config.engine == "vllm":
        _check_room(config, room)
    return Machine(
        units=(GenerationUnit(config.actors, 1, config.slots),) * config.units,
        is_static=(config.batching or usual) == "static",
        open_engine=partial(_open_engine, config, room, seed),
        open_trainer=partial(_open_trainer, config, seed),
        num_training_devices=1,
        prompt_ids=prompt_ids,
        cap=config.max_response_tokens,
        scores=Scores(
            partial(load_reward, config.reward, os.getcwd()),
            partial(_open_decode, config.model),
            found.rows,
        ),
    )


def _check_room(config: ModelConfig, room: int) -> None:
    """vLLM holds no response beyond the positions that a model has."""
    facts = json.loads((Path(config.model) / "config.json").read_bytes())
    known = facts.get("max_position_embeddings")
    if known is not None and room > known:
        raise AspError(
            f"--max-response-tokens {config.max_response_tokens}: with the longest prompt a "
            f"response takes {room} tokens, more than the {known} that the model was made for; "
            "give a smaller one, or leave the longest prompts out"
        )


def _open_engine(config: ModelConfig, room: int, seed: int, unit: int, place: int) -> Engine:
    seed = seed * 1009 + unit * config.actors + place
    if config.engine == "vllm":
        from rollout.trainer.engines.vllm import VllmEngine

        return VllmEngine(config.slots, room, config.temperature, seed)
    from rollout.trainer.engines.transformers import TransformersEngine

    return TransformersEngine(config.slots, config.temperature, seed)


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
        zero_advantage=config.zero_advantage,
        learning_rate=config.learning_rate,
        tokens_per_micro_batch=config.tokens_per_micro_batch,
    )
    return TrainingUnit(Path(config.model), settings)


def _open_decode(model: str) -> Callable[[Sequence[int]], str]:
    from stages.tokens.tokenizer import PromptTokenizer

    return PromptTokenizer(model, "--model").decode
