"""Seconds of a minibatch by hand, and step by step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.costs.model import CostModel, recorded_cost_model
from stages.tables.provenance import Input, Provenance


def test_a_minibatch_takes_as_many_steps_as_its_longest() -> None:
    model = CostModel(step_seconds=0.5, sequence_seconds=0.25)
    assert model.minibatch_seconds(10.0, 4.0) == 10 * (0.5 + 4 * 0.25)
    longest, sequences = np.array([10.0, 0.0]), np.array([4.0, 4.0])
    assert model.minibatch_seconds(longest, sequences).tolist() == [15.0, 0.0]


def test_prefill_and_context_by_hand() -> None:
    """Two sequences, prompts of 7 tokens together, 3 steps: contexts of 7, 9, 11 and on average."""
    model = CostModel(0.0, 0.0, prefill_seconds=2.0, kv_seconds=1.0)
    assert model.minibatch_seconds(3.0, 2.0, 7.0) == 2 * 7 + (7 * 3 + 2 * 3**2 / 2)
    # Longest 1 or 5 at even odds: mean 3, mean square 13.
    both = (model.minibatch_seconds(1.0, 2.0, 7.0) + model.minibatch_seconds(5.0, 2.0, 7.0)) / 2
    assert model.minibatch_seconds(3.0, 2.0, 7.0, 13.0) == both


@given(st.integers(0, 200), st.integers(1, 50), st.integers(0, 300))
def test_seconds_add_up_over_the_steps(longest: int, sequences: int, prompt: int) -> None:
    model = CostModel(0.5, 0.25, 0.125, 0.0625)
    steps = sum(
        0.5 + 0.25 * sequences + 0.0625 * (prompt + sequences * (step + 0.5))
        for step in range(longest)
    )
    expected = 0.125 * prompt + steps
    assert model.minibatch_seconds(float(longest), float(sequences), prompt) == pytest.approx(
        expected
    )


def test_a_part_keeps_the_fixed_cost_of_its_steps() -> None:
    model = CostModel(0.5, 0.25, 0.125, 0.0625)
    whole = model.minibatch_seconds(10.0, 8.0, 80.0)
    half = model.minibatch_seconds(10.0, 4.0, 40.0)
    assert float(model.part_seconds(whole, 10.0, 0.5)) == half
    assert float(model.part_seconds(1.0, 10.0, 0.5)) == 1.0  # seconds that the model did not make


def test_prefill_relative_to_a_slot_step() -> None:
    model = CostModel(step_seconds=0.8, sequence_seconds=0.1, prefill_seconds=0.02)
    assert model.prefill_cost(8) == pytest.approx(0.02 / (0.8 / 8 + 0.1))
    assert CostModel().prefill_cost(8) is None


@pytest.mark.parametrize("found", [{"step_seconds": "a"}, {"step_seconds": -1}, [1], None])
def test_a_footer_that_holds_no_cost_model_gives_the_default(found: object) -> None:
    origin = Provenance("partition", "minibatches/1", {"cost_model": found})
    assert recorded_cost_model(origin) == CostModel()


def test_the_model_that_partition_noted_is_found_down_the_chain() -> None:
    noted = {"step_seconds": 1.0, "sequence_seconds": 2.0}
    origin = Provenance("partition", "minibatches/1", {"cost_model": noted})
    groups = Provenance("balance", "groups/1", inputs=(Input("minibatches", "0", origin),))
    assert recorded_cost_model(groups) == CostModel(1.0, 2.0)
    assert recorded_cost_model(None) == CostModel()
