"""The roofline: by hand, beside published ideal numbers, and its line."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.costs.devices import DEVICES, Device, Figure
from stages.costs.models import MODELS, Model
from stages.costs.roofline import Actor, Efficiency

ALL = Efficiency(1.0, 1.0, 1.0, 1.0)
SLOW = Device("slow", *(Figure(value, "made up") for value in (100.0, 1000.0, 10.0, 8.0, 5.0)))
SMALL = Model(
    name="small", num_layers=1, hidden_size=4, parameters=50, lookup_parameters=10, num_experts=1,
    experts_per_token=1, routed_parameters=0, kv_values=5, kv_parts=1,
)  # fmt: skip


def test_a_small_model_by_hand() -> None:
    actor = Actor(SLOW, SMALL, efficiency=ALL)
    # Reading 40 parameters of 2 bytes at 10 bytes/s, until 11 sequences of 2 x 40 FLOP at 100/s.
    assert actor.step_seconds(1) == actor.step_seconds(10) == 8.0
    assert actor.step_seconds(20) == pytest.approx(16.0)
    costs = actor.cost_model(slots=10, host_seconds=0.5)
    assert costs.step_seconds == pytest.approx(8.5)
    assert costs.sequence_seconds == pytest.approx(0.0, abs=1e-12)
    assert costs.prefill_seconds == pytest.approx(0.8)
    assert costs.kv_seconds == pytest.approx(1.0)  # 5 values of 2 bytes
    assert actor.kv_tokens == 90  # (1000 - 100) / 10
    assert actor.publication_seconds == pytest.approx(20.0)  # 100 bytes at 5/s
    assert actor.tokens_per_second == pytest.approx(100 / 240)


def test_two_devices_share_all_but_what_is_copied() -> None:
    one, two = Actor(SLOW, SMALL, 1, efficiency=ALL), Actor(SLOW, SMALL, 2, efficiency=ALL)
    # An all-reduce of two devices sends each value once: 2 a layer of 4 values of 2 bytes, at 8/s.
    assert two.step_seconds(1) == pytest.approx(one.step_seconds(1) / 2 + 2.0)
    assert two.reload_seconds == one.reload_seconds / 2
    # One part of keys and values: both devices keep and read all of it.
    assert two.kv_tokens == (2000 - 100) // 20
    costs = [actor.cost_model(4, 0.0).kv_seconds for actor in (one, two)]
    assert costs[0] == pytest.approx(costs[1])
    split = replace(SMALL, kv_parts=2)
    assert Actor(SLOW, split, 2, efficiency=ALL).kv_tokens == (2000 - 100) // 10


@pytest.mark.parametrize(
    ("device", "model", "num_sequences", "milliseconds"),
    [
        ("910B3", "Qwen3-30B-A3B", 64, 11.4),
        ("910B3", "Qwen3-32B", 64, 15.6),
        ("910B3", "Qwen3-30B-A3B", 256, 17.6),
        ("H100", "Qwen3-30B-A3B", 64, 5.5),
        ("H100", "Qwen3-32B", 64, 7.5),
        ("H100", "Qwen3-30B-A3B", 256, 8.4),
        ("H100", "Qwen3-32B", 256, 15.2),
    ],
)
def test_ideal_steps(device: str, model: str, num_sequences: int, milliseconds: float) -> None:
    """Independent arithmetic for 4 devices at a context of 2,048, all-reduces left out."""
    actor = Actor(DEVICES[device], MODELS[model], 4, efficiency=ALL)
    seconds = actor.step_seconds(num_sequences)
    seconds += 2048 * num_sequences * actor.cost_model(num_sequences, 0.0).kv_seconds
    assert 1000 * seconds == pytest.approx(milliseconds, rel=0.07)


@given(
    st.sampled_from(sorted(DEVICES)), st.sampled_from(sorted(MODELS)),
    st.sampled_from([1, 2, 4, 8]), st.integers(1, 512), st.floats(0, 0.1),
)  # fmt: skip
def test_the_line_costs_time_and_lies_within_the_roofline(
    device: str, model: str, num_devices: int, slots: int, host: float
) -> None:
    actor = Actor(DEVICES[device], MODELS[model], num_devices)
    costs = actor.cost_model(slots, host)
    assert costs.step_seconds >= host and costs.sequence_seconds >= 0
    halfway = (1 + slots) / 2
    least, most = (host + actor.step_seconds(number) for number in (1, slots))
    assert least * (1 - 1e-9) <= costs.step_seconds + costs.sequence_seconds * halfway
    assert costs.step_seconds + costs.sequence_seconds * halfway <= most * (1 + 1e-9)


def test_every_figure_says_where_it_is_from() -> None:
    for device in DEVICES.values():
        for figure in (device.peak, device.memory, device.bandwidth, device.link, device.network):
            assert figure.value > 0 and len(figure.source) > 10, device.name
