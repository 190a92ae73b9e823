"""verl's own dataset, sampler, loader and router over an emitted directory; skipped without verl.

No GPU and no engine are needed: these parts decide which prompts make a train batch, and where each
is generated. `make test-verl` runs this with 0.9 and with 0.7.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.trainers.handed_over import (
    NUM_PROMPTS,
    SAMPLES,
    TRAIN_BATCH,
    hand_over,
    on_path,
    planned_batches,
    sidecar,
)

verl = pytest.importorskip("verl")
IS_OLD = verl.__version__.startswith("0.7")
needs_new = pytest.mark.skipif(IS_OLD, reason="not in verl 0.7")
needs_old = pytest.mark.skipif(not IS_OLD, reason="verl 0.8 removed data.sampler")

CONFIGS = {  # of each way to run verl: its config's folder and name
    "verl": ("trainer/config", "ppo_trainer"),
    "verl-one-step-off": ("experimental/one_step_off_policy/config", "one_step_off_ppo_trainer"),
    "verl-fully-async": ("experimental/fully_async_policy/config", "fully_async_ppo_trainer"),
}


def make_config(folder: Path, trainer: str, *more: str) -> Any:
    """verl's own defaults for that way to run it, with the emitted overrides."""
    from hydra import compose, initialize_config_dir

    package = Path(verl.__file__).parent
    where, name = CONFIGS[trainer]
    text = (folder / "overrides.txt").read_text().replace("${ASP_DIR}", str(folder))
    searched = f"hydra.searchpath=[file://{package}/trainer/config]"
    with initialize_config_dir(str(package / where), version_base=None):
        return compose(name, overrides=[*text.splitlines(), searched, *more])


def make_loader(config: Any) -> Any:
    """The train loader as verl's trainers build it."""
    from torchdata.stateful_dataloader import StatefulDataLoader
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    if IS_OLD:
        from verl.trainer.main_ppo import create_rl_sampler
    else:
        from verl.trainer.ppo.utils import create_rl_sampler

    dataset = RLHFDataset(config.data.train_files, tokenizer=None, config=config.data)
    return StatefulDataLoader(
        dataset=dataset,
        batch_size=config.data.get("gen_batch_size", None) or config.data.train_batch_size,
        num_workers=0,
        drop_last=True,
        collate_fn=collate_fn,
        sampler=create_rl_sampler(config.data, dataset),
    )


def indices(batch: dict[str, Any]) -> list[int]:
    return [int(info["index"]) for info in batch["extra_info"]]


@pytest.mark.parametrize("trainer", ["verl", "verl-one-step-off"])
def test_verl_yields_the_planned_batches_of_both_epochs(tmp_path: Path, trainer: str) -> None:
    folder = hand_over(tmp_path, trainer)
    config = make_config(folder, trainer)
    assert config.actor_rollout_ref.rollout.n == SAMPLES and config.trainer.total_epochs == 1
    batches = list(make_loader(config))
    assert [indices(batch) for batch in batches] == planned_batches(folder)
    assert len(batches) == 12  # 24 rows an epoch, two of them repeats
    assert batches[0]["raw_prompt"][0][0]["content"] == f"né {planned_batches(folder)[0][0]}"
    assert batches[0]["asp_prompt_id"].tolist() == planned_batches(folder)[0]


@needs_new
def test_fully_async_verl_submits_prompts_in_order(tmp_path: Path) -> None:
    folder = hand_over(tmp_path, "verl-fully-async")
    config = make_config(folder, "verl-fully-async")
    assert (config.data.train_batch_size, config.data.gen_batch_size) == (0, 1)
    assert config.rollout.total_rollout_steps == sidecar(folder)["num_rows"]
    assert config.async_training.partial_rollout is True
    loader = make_loader(config)
    assert [indices(batch) for batch in loader] == [[i] for i in sidecar(folder)["row_prompt_ids"]]


def test_verl_resumes_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    folder = hand_over(tmp_path, "verl")
    loader = make_loader(make_config(folder, "verl"))
    batches = iter(loader)
    for _ in range(8):  # the second epoch began with the seventh
        next(batches)
    resumed = make_loader(make_config(folder, "verl"))
    resumed.load_state_dict(loader.state_dict())
    assert [indices(batch) for batch in resumed] == planned_batches(folder)[8:]


def test_verl_left_to_its_defaults_loses_the_schedule(tmp_path: Path) -> None:
    """The checks above can fail: with shuffling on, the batches are others."""
    folder = hand_over(tmp_path, "verl")
    loader = make_loader(make_config(folder, "verl", "data.shuffle=True", "data.seed=1"))
    assert [indices(batch) for batch in loader] != planned_batches(folder)


@needs_old
def test_the_sampler_of_old_verl_anchors_each_step_and_resumes(tmp_path: Path) -> None:
    """The fourth step draws one batch and a half; the half that is left comes last."""
    from verl.experimental.dataset.sampler import AbstractCurriculumSampler

    folder = hand_over(tmp_path, "verl", num_epochs=1)
    flags = (
        f"data.sampler.class_path={folder}/asp_verl_sampler.py",
        "data.sampler.class_name=VerlSampler",
        "data.dataloader_num_workers=0",
    )
    with on_path(folder):
        loader = make_loader(make_config(folder, "verl", *flags, "+data.gen_batch_size=2"))
        assert isinstance(loader.sampler, AbstractCurriculumSampler)
        batches = iter(loader)
        drawn = [[*indices(next(batches)), *indices(next(batches))] for _ in range(3)]
        loader.sampler.update(None)
        drawn.append([*indices(next(batches)), *indices(next(batches)), *indices(next(batches))])
        loader.sampler.update(None)  # what verl calls at the end of a step

        resumed = make_loader(make_config(folder, "verl", *flags, "+data.gen_batch_size=2"))
        resumed.load_state_dict(loader.state_dict())
        rest = [i for batch in resumed for i in indices(batch)]
    planned = planned_batches(folder)
    assert drawn == [*planned[:3], [*planned[3], *planned[4][:2]]]
    assert rest == [*planned[5], *planned[4][2:]]


@contextmanager
def small_ray(ray: Any, environment: dict[str, str]) -> Iterator[None]:
    """A Ray of this test's own, whose workers have that environment."""
    ray.init(
        num_cpus=1, include_dashboard=False, log_to_driver=False,
        runtime_env={"env_vars": environment},
    )  # fmt: skip
    yield
    ray.shutdown()


@needs_new
def test_the_router_places_prompts_as_planned(tmp_path: Path) -> None:
    """Built by verl's own factory from the emitted YAML, inside a Ray actor, asked by its client.

    Every sample of a prompt goes to the planned server; a validation prompt goes to a free one.
    """
    ray = pytest.importorskip("ray")
    from verl.workers.rollout.llm_server import LLMServerClient
    from verl.workers.rollout.router import get_router_handle

    folder = hand_over(tmp_path, "verl", num_epochs=1, num_instances=2)
    config = make_config(folder, "verl")
    rows = next(iter(make_loader(config)))
    environment = config.ray_kwargs.ray_init.runtime_env.env_vars
    with on_path(folder), small_ray(ray, dict(environment)):
        servers = {"a": "handle a", "b": "handle b"}
        path = config.actor_rollout_ref.rollout.router_config_path
        client = LLMServerClient(config, get_router_handle(servers, path))

        async def ask() -> list[str]:
            found = []
            for row, priority in enumerate(rows["priority"].tolist()):
                for sample in range(SAMPLES):
                    request = f"{row}-{sample}"
                    server, handle = await client._acquire_server(
                        request, prompt_ids=[1], sampling_params={}, priority=priority
                    )
                    assert handle == servers[server]
                    found.append(server)
            server, _ = await client._acquire_server("validation", priority=3)
            assert server in servers
            client._release_server(server, "validation")
            return found

        placed = asyncio.run(ask())
        status = ray.get(client._load_balancer.get_status.remote())
    assert placed == ["a"] * 2 * SAMPLES + ["b"] * 2 * SAMPLES
    assert (status["placed"], status["free"]) == (len(placed), 1)
    assert status["servers"] == {"a": 4, "b": 4}


@needs_new
def test_a_request_keeps_its_server_and_servers_may_go(tmp_path: Path) -> None:
    """The router's rules, without Ray: sticky turns, a server that is not there."""
    folder = hand_over(tmp_path, "verl", num_epochs=1, num_instances=2)
    first = sidecar(folder)["first_priority"]
    with on_path(folder):
        from asp_router import PlannedRouter

        router = PlannedRouter({"a": 1, "b": 2}, {})
    assert router.require_acquire_fields() == ["priority"]
    assert router.acquire_server("x", priority=first + 2)[0] == "b"
    router.release_server("b")
    router.remove_servers(["b"])
    assert router.acquire_server("x", priority=first + 2)[0] == "a"
    router.add_servers({"c": 3})
    assert router.acquire_server("y", priority=first + 2)[0] == "c"
    assert router.get_status()["placed"] == 2


def test_rows_are_as_they_were_and_repeats_are_named(tmp_path: Path) -> None:
    folder = hand_over(tmp_path, "verl", num_epochs=1)
    rows = pl.read_parquet(folder / "prompts.parquet")
    assert rows["answer"].cast(pl.Int64).to_list() == sidecar(folder)["row_prompt_ids"]
    assert len(rows) == NUM_PROMPTS + 2 and len(rows) % TRAIN_BATCH == 0
