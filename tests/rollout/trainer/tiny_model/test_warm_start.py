"""The tiny model: made, trained, saved, measured."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

pytest.importorskip("reasoning_gym")

from transformers import AutoModelForCausalLM, AutoTokenizer

from rollout.trainer.tasks import make_prompts
from rollout.trainer.tiny_model.__main__ import main
from rollout.trainer.tiny_model.measure import Measured, measure
from rollout.trainer.tiny_model.puzzles import Maze
from rollout.trainer.tiny_model.tokenizer import make_tokenizer
from rollout.trainer.tiny_model.warm_start import WarmStart, new_model, warm_start

TOKENIZER = make_tokenizer((*Maze.phrases, "<answer>", "</answer>"))
SHORT = WarmStart(num_steps=51, batch_size=4, num_entries=20, rising_steps=5)


def trained(settings: WarmStart) -> tuple[torch.nn.Module, list[str]]:
    words: list[str] = []
    model = new_model(TOKENIZER, seed=0)
    warm_start(model, TOKENIZER, Maze(), settings, 0, words.append)
    return model, words


def test_equal_seeds_give_equal_weights() -> None:
    few = WarmStart(num_steps=3, batch_size=2, num_entries=5, rising_steps=1)
    first, second = (trained(few)[0].parameters() for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_it_learns_and_what_is_saved_loads_and_generates(tmp_path: Path) -> None:
    model, (told,) = trained(SHORT)
    assert told.startswith("step 50 of 51: loss ")
    assert float(told.split()[5].rstrip(",")) < 0.7 * np.log(len(TOKENIZER))
    assert sum(weights.numel() for weights in model.parameters()) == 362_304

    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert all(map(torch.equal, model.parameters(), loaded.parameters()))
    assert loaded.generation_config.eos_token_id == TOKENIZER.eos_token_id

    prompts = make_prompts("maze", Maze.config, 0, 5, Maze().prompt)
    measured = measure(model, TOKENIZER, Maze(), prompts, num_samples=2, seed=0)
    assert measured.rewards_ps.shape == measured.tokens_ps.shape == (5, 2)
    assert measured.tokens_ps.min() >= 1 and measured.tokens_ps.max() <= Maze.max_response_tokens


def test_what_is_told_of_measured_responses() -> None:
    measured = Measured(
        rewards_ps=np.array([[1.0, 0.0], [1.0, 1.0]]),
        tokens_ps=np.array([[10, 10], [20, 24]]),
        difficulty_p=np.array([3, 5]),
    )
    assert str(measured) == (
        "reward 0.75; 16.0 tokens a response, standard deviation 6.0 between prompts and 1.4 "
        "within one; Kendall's tau of difficulty and mean length 1.00"
    )


@pytest.mark.parametrize("mistake", [["chess", "-o", "x"], ["maze"], ["maze", "-o", "{file}"]])
def test_mistakes_are_told_before_anything_is_trained(mistake: list[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SystemExit) as stopped:
        main([part.format(file=file) for part in mistake])
    assert stopped.value.code == 2 or "is a file" in str(stopped.value.code)


@pytest.mark.slow
def test_the_recipe_leaves_room_for_training_by_reward(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tiny"
    main(["maze", "-o", str(folder)])
    line = capfd.readouterr().out.strip().splitlines()[-1]
    assert 0.2 <= float(line.split()[1].rstrip(";")) <= 0.7
    assert float(line.split()[-1]) > 0.2
    assert len(pl.read_parquet(folder / "prompts.parquet")) == 512
    AutoTokenizer.from_pretrained(folder)
    AutoModelForCausalLM.from_pretrained(folder)
