"""The planner: cases whose best is known by hand, and what holds for all."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.planner.choice import choose, gain, mean_seconds
from rollout.planner.search import fastest
from rollout.planner.setting import Setting, Split
from rollout.planner.space import Space, Wishes, space_of
from rollout.planner.table import table_of
from rollout.planner.trials import Task, Trials
from rollout.simulator.clusterfile import ClusterFile, read_cluster
from stages.lengths.table import complete
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Lengths, Plans

Written = Callable[..., ClusterFile]
SEEDS = range(2)

CLUSTER = """
[generation]
units = {units}
actors = {actors}
slots = {slots}
engine = "{engine}"
reload_seconds = 0
speeds = {speeds}
[generation.cost]
step_seconds = {decode}
sequence_seconds = {sequence}
prefill_seconds = 0
kv_seconds = 0
[training]
devices = {training}
tokens_per_second = {rate}
step_seconds = {step}
publication_seconds = 0
[queue]
{queue}
[lag]
max_lag = {max_lag}
"""


def cluster_of(folder: Path, **numbers: object) -> ClusterFile:
    """8 devices: 6 actors of 8 slots, a token of each a hundredth of a second; 2 that train."""
    known: dict[str, object] = {
        "units": 1, "actors": 6, "slots": 8, "engine": "static", "decode": 0.01, "sequence": 0,
        "training": 2, "rate": 800, "step": 0, "queue": "", "max_lag": 4, "speeds": [1],
    }  # fmt: skip
    path = folder / "cluster.toml"
    path.write_text(CLUSTER.format(**known | numbers))
    return read_cluster(str(path))


def lengths_of(num_prompts: int, spread: float = 0.0, chance: float = 0.0) -> pl.DataFrame:
    """Responses of 100 tokens to every prompt, or so."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "prompt_id": range(num_prompts),
            "mu": np.log(100) + spread * rng.standard_normal(num_prompts),
            "sigma": np.full(num_prompts, chance),
            "cap": np.full(num_prompts, 2000),
        }
    )
    return conform(frame, Lengths, "lengths", complete)


def planned(
    found: ClusterFile, lengths: pl.DataFrame, wishes: Wishes, samples: int = 1
) -> tuple[Trials, Space]:
    space = space_of(found, wishes, samples, len(lengths))
    return Trials(Task(lengths, {}, samples, 1, found, None)), space


STEPS_OF_16 = Wishes(
    batch_sizes=(8,), slacks=(0.0,), prompts_per_group=(16,), policies=("balanced",),
    max_rounds=(0,), max_lags=(4, 0, 1, 2),
)  # fmt: skip


def test_the_even_split_by_hand(tmp_path: Path) -> None:
    """An actor makes 8 responses of 100 tokens in 1 s; a device trains on 8 a second.

    So 192 prompts take 192 / 8g s of g actors and 192 / 8t s of t devices at least: 8 s and more
    for all splits but 4 and 4, which takes 6 s, and at most the first and last step more.
    """
    wishes = replace(STEPS_OF_16, max_lags=(4,))
    trials, space = planned(cluster_of(tmp_path), lengths_of(192), wishes)
    assert space.plain.split == Split(6, 2) and len(space.values["split"]) == 7
    choice = choose(trials, space, 0.03, SEEDS)
    assert choice.best.split == choice.knee.split == Split(4, 4)
    assert 6 <= mean_seconds(trials, choice.best, SEEDS) <= 7.5
    for split in space.values["split"]:
        least = 192 / 8 / min(split)
        assert mean_seconds(trials, replace(choice.best, split=split), SEEDS) >= least - 1e-9
    ratio, low, high = gain(trials, choice.plain, choice.best, SEEDS)
    assert low == pytest.approx(ratio) == pytest.approx(high)  # nothing is left to chance
    assert ratio >= 12 / 7.5
    assert choice.alone["split"].split == Split(4, 4) and set(choice.alone) == {"split"}


def test_the_knee_by_hand(tmp_path: Path) -> None:
    """A step of training takes 4 s whatever it holds: one actor, which takes 2 s, is enough.

    At a lag bound of 0 generation and training alternate, so the knee needs 1.
    """
    found = cluster_of(tmp_path, step=4, rate=1e9)
    wishes = replace(STEPS_OF_16, max_lags=(0, 1, 2, 4))
    trials, space = planned(found, lengths_of(192), wishes)
    assert mean_seconds(trials, space.plain, SEEDS) == pytest.approx(12 * (1 + 4), abs=0.01)
    choice = choose(trials, space, 0.05, SEEDS)
    assert (choice.knee.split, choice.knee.max_lag) == (Split(1, 1), 1)
    assert mean_seconds(trials, choice.knee, SEEDS) == pytest.approx(12 * 4 + 2, abs=0.01)
    strict = choose(trials, space, 0.0, SEEDS)
    assert strict.knee.split.num_actors == 2, "the first step must not take longer either"


def test_the_search_finds_what_trying_all_finds(tmp_path: Path) -> None:
    found = cluster_of(tmp_path, actors=3, slots=16, sequence=0.0005)
    wishes = Wishes(
        training_devices=(2, 1, 3), batch_sizes=(4, 8), slacks=(0.25,), prompts_per_group=(16,),
        policies=("balanced",), max_rounds=(0, 1), max_lags=(2,),
    )  # fmt: skip
    trials, space = planned(found, lengths_of(48, 0.3, 0.7), wishes)
    best, _ = fastest(trials, space, 7)
    everything = [Setting(*values) for values in product(*space.values.values())]
    seconds = [mean_seconds(trials, s, range(7, 10)) for s in everything if space.holds(s)]
    assert mean_seconds(trials, best, range(7, 10)) <= 1.05 * min(seconds)


@settings(max_examples=3)
@given(
    st.sampled_from(["static", "continuous"]), st.integers(1, 5), st.integers(0, 3),
    st.floats(50, 5000), st.floats(0.0, 1.2), st.integers(0, 100),
)  # fmt: skip
def test_what_is_chosen_is_never_slower_than_the_plain_setting(
    tmp_path_factory: pytest.TempPathFactory, engine: str, actors: int, max_lag: int, rate: float,
    chance: float, seed: int,
) -> None:  # fmt: skip
    found = cluster_of(
        tmp_path_factory.mktemp("plan"), engine=engine, actors=actors, rate=rate, max_lag=max_lag
    )
    wishes = Wishes(
        batch_sizes=(4,), prompts_per_group=(12,), slacks=(0.25,), policies=("balanced", "like"),
        max_rounds=(0, 2),
    )  # fmt: skip
    trials, space = planned(found, lengths_of(48, 0.5, chance), wishes)
    seeds = range(seed, seed + 2)
    choice = choose(trials, space, 0.05, seeds)
    plain, best, knee = (
        mean_seconds(trials, each, seeds) for each in (choice.plain, choice.best, choice.knee)
    )
    assert best <= plain and knee <= plain and knee <= 1.05 * best
    assert choice.knee.max_lag <= choice.best.max_lag <= max_lag
    assert sum(choice.knee.split) <= sum(choice.best.split)
    for each in (choice.best, choice.knee):
        outcome = trials.run(each, seed)
        assert outcome.measures.max_lag <= each.max_lag
    table = conform(table_of(trials, choice), Plans, "plans")
    assert [table[f"is_{name}"].sum() for name in ("plain", "best", "knee")] == [1, 1, 1]
    shares = table.select(
        pl.sum_horizontal(
            "useful", "padding", "skew", "sorting", "reload", "switching", "carry", "lost"
        )
    ).to_series()
    assert np.allclose(shares, 1.0)
    assert table.filter("is_plain")["gain"].item() == pytest.approx(1.0)


def test_budgets_are_off_where_they_lose(tmp_path: Path) -> None:
    """Nothing is left to chance, so there are no stragglers to leave behind."""
    wishes = replace(STEPS_OF_16, max_rounds=(2, 0), max_lags=(4,))
    trials, space = planned(cluster_of(tmp_path), lengths_of(192), wishes)
    assert space.plain.max_rounds == 2
    assert choose(trials, space, 0.0, SEEDS).knee.max_rounds == 0


def test_the_plain_setting_is_the_files_with_the_stages_defaults(tmp_path: Path) -> None:
    space = space_of(cluster_of(tmp_path, slots=400), Wishes(), 8, 4096)
    assert space.plain == Setting(Split(6, 2), 32, 0.25, 256, "balanced", 0, 4)
    assert space.values["max_lag"] == (0, 1, 2, 4)
    assert space.values["split"] == tuple(Split(actors, 8 - actors) for actors in range(1, 8))
    small = space_of(cluster_of(tmp_path, slots=40), Wishes(), 8, 4096)
    assert (small.plain.batch_size, small.plain.slack) == (5, 0.0), "5 x 8 responses fit into 40"
    many = space_of(cluster_of(tmp_path, actors=90, slots=400), Wishes(), 8, 4096)
    assert len(many.values["split"]) <= 10 and many.plain.split in many.values["split"]
    uneven = cluster_of(tmp_path, units=2, actors=3, speeds=[1, 2])
    assert space_of(uneven, Wishes(), 1, 512).values["split"] == (Split(6, 2),)
    tight = space_of(cluster_of(tmp_path, queue="capacity = 600"), Wishes(), 1, 4096)
    assert {s.max_lag for lever, s in tight.singles()} == {0, 1}, "two steps of 256, and one of 8"


def test_devices_are_given_up_by_eighths_or_as_named(tmp_path: Path) -> None:
    found = cluster_of(tmp_path)
    free = space_of(found, Wishes(), 1, 512)
    assert list(free.smaller(Split(6, 32))) == [Split(6, 28), Split(5, 32)]
    assert list(free.smaller(Split(1, 1))) == []
    named = space_of(found, Wishes(training_devices=(4, 2)), 1, 512)
    assert list(named.smaller(Split(1, 4))) == [Split(1, 2)]
    assert list(named.smaller(Split(1, 2))) == []


@pytest.mark.parametrize(
    ("numbers", "wishes", "words"),
    [
        ({"slots": 7}, Wishes(), "slots is 7, less than the 8 responses of one prompt"),
        ({}, Wishes(training_devices=(2, 8)), "8 devices, and --training-devices 8 leaves less"),
        (
            {"units": 2, "actors": 3, "speeds": [1, 2]},
            Wishes(training_devices=(5,)),
            "generation.speeds differ",
        ),
        ({}, Wishes(batch_sizes=(64,), prompts_per_group=(32,)), "--batch-size 64 is above the 32"),
    ],
)
def test_what_cannot_be_planned_for(
    tmp_path: Path, numbers: dict[str, object], wishes: Wishes, words: str
) -> None:
    with pytest.raises(AspError, match=words):
        space_of(cluster_of(tmp_path, **numbers), wishes, 8, 512)


def test_a_queue_too_small_for_the_plain_setting_names_the_file(tmp_path: Path) -> None:
    found = cluster_of(tmp_path, queue="capacity = 10")
    trials, space = planned(found, lengths_of(96), STEPS_OF_16)
    with pytest.raises(AspError, match=r"cluster\.toml: queue_capacity is 10"):
        choose(trials, space, 0.03, SEEDS)
