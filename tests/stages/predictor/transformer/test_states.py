from pathlib import Path

import numpy as np
import pytest
import torch

from stages.predictor.transformer.base import load_base
from stages.predictor.transformer.encode import encode
from stages.predictor.transformer.journal import Journal
from stages.predictor.transformer.states import pooled_states
from stages.predictor.transformer.team import Alone
from stages.tables.errors import AspError

TEXTS = ["a", "Add 1 and 2, please, and then 3 and 4", "b c", "Explain how to add numbers"]


@pytest.mark.parametrize("kind", ["causal_path", "encoder_path"])
def test_padding_and_company_do_not_matter(kind: str, request: pytest.FixtureRequest) -> None:
    base = load_base(str(request.getfixturevalue(kind)))
    prompts = encode(base, TEXTS, 64)
    together = pooled_states(base, prompts, Journal(None), Alone())
    assert together.shape == (4, 2 * 32)
    for row, ids in zip(together, prompts, strict=True):
        with torch.inference_mode():
            read = base.model(input_ids=torch.tensor([ids]), output_hidden_states=True)
        layers = [read.hidden_states[1][0], read.last_hidden_state[0]]  # of two
        one = [state[-1] if base.is_causal else state.mean(0) for state in layers]
        assert row == pytest.approx(torch.cat(one).numpy(), abs=1e-4)


def test_kept_states_are_not_computed_again(causal_path: Path, tmp_path: Path) -> None:
    base = load_base(str(causal_path))
    prompts = encode(base, TEXTS, 64)
    journal = Journal(tmp_path / "out.journal")
    journal.open({"seed": 0}, force=False)
    first = pooled_states(base, prompts, journal, Alone())
    assert np.array_equal(first, pooled_states(base, prompts, journal, Alone()))
    journal.keep("states-0", {"states": torch.full((4, 64), 7.0)})
    assert (pooled_states(base, prompts, journal, Alone()) == 7).all()


def test_a_journal_of_other_settings_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out.journal")
    journal.open({"seed": 0}, force=False)
    journal.keep("states-0", {"states": torch.zeros(1)})
    journal.open({"seed": 0}, force=False)
    assert journal.load("states-0") is not None
    with pytest.raises(AspError, match="seed 0 there, 1 now; repeat that run's flags"):
        journal.open({"seed": 1}, force=False)
    journal.open({"seed": 1}, force=True)
    assert journal.load("states-0") is None
