"""Asking a model: the table, and a run that was killed at any batch goes on as if it was not."""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from stages.profile.engine import (
    Answer,
    Batch,
    Finished,
    InBatches,
    Key,
    OnTokens,
    Request,
    Sampling,
)
from stages.profile.from_model import ModelConfig, run_model
from stages.tables.errors import AspError
from stages.tables.io import Table, read_table
from stages.tables.schemas import Profile

TEXTS = ["a", "bb", "a", "ccccc", "dddd", "eee", "ffffffff"]  # six different ones


class Killed(BaseException):
    """Like SIGKILL it is not caught on the way."""


@dataclass
class FakeEngine:
    """Draws lengths from the batch's seed; dies when it is asked for one batch too many."""

    dies_after: int | None = None  # batches
    asked: list[Key] = field(default_factory=list)  # first request of each batch it answered
    model: str = "fake"

    def describe(self) -> dict[str, Any]:
        return {"engine": "fake"}

    def generate(self, batch: Batch, sampling: Sampling, on_tokens: OnTokens) -> list[Answer]:
        if len(self.asked) == self.dies_after:
            raise Killed
        self.asked.append(batch.requests[0].key)
        drawn = np.random.default_rng(batch.seed).integers(1, 20, len(batch.requests))
        tokens = [min(int(n), sampling.max_response_tokens) for n in drawn]
        on_tokens(sum(tokens))
        return [
            Answer(
                n,
                "length" if n == sampling.max_response_tokens else "stop",
                prompt_tokens=len(request.prompt),
                latency_s=n / 8,
                concurrency=len(tokens),
            )
            for n, request in zip(tokens, batch.requests, strict=True)
        ]


# The first request of each batch: once each of the six prompts, then their other responses.
BATCHES = [(1, 0), (0, 0), (5, 1), (4, 1), (6, 1)]
CONFIG = ModelConfig("fake", max_response_tokens=12, rollouts_per_prompt=3, batch_size=4)


@pytest.fixture
def prompts_path(tmp_path: Path) -> str:
    path = tmp_path / "prompts.parquet"
    pl.DataFrame({"prompt": TEXTS}).write_parquet(path)
    return str(path)


def in_batches(engine: FakeEngine) -> Callable[[ModelConfig], InBatches]:
    return lambda config: InBatches(engine, config.batch_size, config.seed)


def run(
    prompts: str,
    output: Path,
    engine: FakeEngine,
    config: ModelConfig = CONFIG,
    force: bool = False,
) -> Table:
    run_model(prompts, str(output), config, force, open_engine=in_batches(engine))
    return read_table(str(output), Profile)


def test_the_table(prompts_path: str, tmp_path: Path) -> None:
    table = run(prompts_path, tmp_path / "p.parquet", FakeEngine())
    frame = table.frame
    assert frame.select("prompt_id", "sample_index").rows() == [
        (i, s) for i in (0, 1, 3, 4, 5, 6) for s in range(3)
    ]
    assert frame["prompt_tokens"].to_list() == [
        len(TEXTS[i]) for i in (0, 1, 3, 4, 5, 6) for _ in "abc"
    ]
    constant = frame.select("model", "max_response_tokens", "temperature", "policy_version")
    assert constant.unique().rows() == [("fake", 12, 1.0, 0)]
    is_capped = frame["finish_reason"].cast(pl.String) == "length"
    assert is_capped.to_list() == (frame["response_tokens"] == 12).to_list()
    assert table.provenance is not None
    results = table.provenance.results
    assert results["num_responses"] == 18
    assert results["share_at_cap"] == pytest.approx(is_capped.mean())
    assert table.provenance.config["engine"] == "fake"
    assert str(tmp_path) not in table.provenance.to_json()


@pytest.mark.parametrize("dies_after", range(5))
def test_a_killed_run_goes_on(prompts_path: str, tmp_path: Path, dies_after: int) -> None:
    whole = run(prompts_path, tmp_path / "whole.parquet", FakeEngine()).frame
    output, dying, resumed = tmp_path / "p.parquet", FakeEngine(dies_after), FakeEngine()
    with pytest.raises(Killed):
        run(prompts_path, output, dying)
    assert not output.exists()
    assert (tmp_path / "p.parquet.journal").exists()
    table = run(prompts_path, output, resumed).frame
    assert table.equals(whole)
    assert dying.asked + resumed.asked == BATCHES
    assert [p.name for p in tmp_path.glob("p.*")] == ["p.parquet"]


def test_a_run_killed_again_and_again_ends(prompts_path: str, tmp_path: Path) -> None:
    whole = run(prompts_path, tmp_path / "whole.parquet", FakeEngine()).frame
    asked = []
    for _ in range(5):
        engine = FakeEngine(dies_after=1)
        try:
            table = run(prompts_path, tmp_path / "p.parquet", engine).frame
        except Killed:
            continue
        finally:
            asked += engine.asked
    assert table.equals(whole)
    assert asked == BATCHES


def test_sigkill_in_the_middle_of_a_batch(prompts_path: str, tmp_path: Path) -> None:
    output = tmp_path / "p.parquet"
    code = f"""
        import importlib.util, os, signal
        spec = importlib.util.spec_from_file_location("test_from_model", {__file__!r})
        test_from_model = importlib.util.module_from_spec(spec)
        import sys; sys.modules["test_from_model"] = test_from_model
        spec.loader.exec_module(test_from_model)

        class Killing(test_from_model.FakeEngine):
            def generate(self, batch, sampling, on_tokens):
                if len(self.asked) == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().generate(batch, sampling, on_tokens)

        test_from_model.run_model({prompts_path!r}, {str(output)!r}, test_from_model.CONFIG,
                             open_engine=test_from_model.in_batches(Killing()))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == -9
    assert {p.name for p in tmp_path.iterdir()} == {"prompts.parquet", "p.parquet.journal"}
    engine = FakeEngine()
    table = run(prompts_path, output, engine).frame
    assert engine.asked == BATCHES[3:]
    assert table.equals(run(prompts_path, tmp_path / "whole.parquet", FakeEngine()).frame)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"temperature": 0.5}, "temperature 1.0 there, 0.5 now"),
        ({"seed": 1}, "seed 0 there, 1 now"),
        ({"batch_size": 2}, "batch_size 4 there, 2 now"),
        ({"num_prompts": 2}, "num_prompts null there, 2 now"),
    ],
)
def test_a_journal_of_other_flags_is_refused(
    prompts_path: str, tmp_path: Path, change: dict[str, Any], line: str
) -> None:
    output = tmp_path / "p.parquet"
    with pytest.raises(Killed):
        run(prompts_path, output, FakeEngine(dies_after=2))
    changed = replace(CONFIG, **change)
    with pytest.raises(AspError, match=line):
        run(prompts_path, output, FakeEngine(), changed)
    assert not output.exists()
    fresh = run(prompts_path, output, FakeEngine(), changed, force=True).frame
    assert fresh.equals(run(prompts_path, tmp_path / "q.parquet", FakeEngine(), changed).frame)


def test_a_journal_of_other_prompts_is_refused(prompts_path: str, tmp_path: Path) -> None:
    output = tmp_path / "p.parquet"
    with pytest.raises(Killed):
        run(prompts_path, output, FakeEngine(dies_after=2))
    pl.DataFrame({"prompt": [*TEXTS, "another"]}).write_parquet(prompts_path)
    with pytest.raises(AspError, match="other settings: prompts"):
        run(prompts_path, output, FakeEngine())


def test_an_existing_output_is_refused_before_the_model_is_opened(
    prompts_path: str, tmp_path: Path
) -> None:
    output = tmp_path / "p.parquet"
    output.touch()
    engine = FakeEngine()
    with pytest.raises(AspError, match="exists already"):
        run(prompts_path, output, engine)
    assert engine.asked == []
    run(prompts_path, output, engine, force=True)


def test_no_more_is_asked_for_than_the_tokens_allow(prompts_path: str, tmp_path: Path) -> None:
    whole = run(prompts_path, tmp_path / "whole.parquet", FakeEngine())
    for max_tokens in (1, 30, 60, 100, 10_000):
        engine, output = FakeEngine(), tmp_path / f"{max_tokens}.parquet"
        config = replace(CONFIG, max_profile_tokens=max_tokens)
        table = run(prompts_path, output, engine, config).frame
        spent = table["response_tokens"].sum()
        in_flight = CONFIG.batch_size * CONFIG.max_response_tokens
        assert spent < max_tokens + in_flight
        assert spent >= max_tokens or len(table) == len(whole.frame)
        # Killed before its last batch it ends in the same table.
        if len(engine.asked) > 1:
            with pytest.raises(Killed):
                run(prompts_path, tmp_path / "k", FakeEngine(len(engine.asked) - 1), config)
            resumed = FakeEngine()
            assert run(prompts_path, tmp_path / "k", resumed, config, force=True).frame.equals(
                table
            )
            assert resumed.asked == engine.asked[-1:]
            (tmp_path / "k").unlink()


def test_a_dry_run_says_the_cost_and_leaves_the_first_responses_to_the_run(
    prompts_path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output, dry = tmp_path / "p.parquet", FakeEngine()
    with caplog.at_level("INFO", logger="asp"):
        run_model(prompts_path, str(output), CONFIG, is_dry=True, open_engine=in_batches(dry))
    assert "told from the first 6 responses: 18 responses take " in caplog.text
    assert not output.exists()
    assert dry.asked == BATCHES[:2]  # 6 prompts, in batches of 4
    limited = replace(CONFIG, max_profile_tokens=100)  # chosen now that the cost is known
    engine = FakeEngine()
    table = run(prompts_path, output, engine, limited).frame
    assert engine.asked == BATCHES[2:][: len(engine.asked)]
    assert table.equals(run(prompts_path, tmp_path / "q.parquet", FakeEngine(), limited).frame)


class OneByOne(FakeEngine):
    """Has slots, no batches."""

    def answer(
        self, requests: Iterable[Request], sampling: Sampling, on_tokens: OnTokens
    ) -> Generator[Finished, None, None]:
        for request in requests:
            batch = Batch(0, [request])
            yield [(request, self.generate(batch, sampling, on_tokens)[0])]


def test_a_dry_run_makes_no_more_than_it_must_where_there_are_no_batches(
    prompts_path: str, tmp_path: Path
) -> None:
    engine, config = OneByOne(), replace(CONFIG, batch_size=256)
    run_model(
        prompts_path, str(tmp_path / "p"), config, is_dry=True, open_engine=lambda config: engine
    )
    assert len(engine.asked) == 6, "one of each prompt"


def test_seeds_of_batches_hang_on_the_seed_and_the_first_request() -> None:
    requests = [Request(prompt, "a", 0) for prompt in range(10)]

    def batches(seed: int, requests: list[Request]) -> list[Batch]:
        seen: list[Batch] = []

        class Seeing(FakeEngine):
            def generate(self, batch: Batch, *rest: Any) -> list[Answer]:
                seen.append(batch)
                return super().generate(batch, *rest)

        answered = InBatches(Seeing(), 4, seed).answer(requests, Sampling(1, 9), lambda n: None)
        assert [request for finished in answered for request, _ in finished] == requests
        return seen

    whole = batches(0, requests)
    assert [len(batch.requests) for batch in whole] == [4, 4, 2]
    assert batches(0, requests[4:]) == whole[1:]
    assert len({b.seed for b in whole} | {b.seed for b in batches(1, requests)}) == 6


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_an_engine_that_is_not_installed_is_told(prompts_path: str, tmp_path: Path) -> None:
    with pytest.raises(AspError, match="--engine vllm: is not installed here"):
        run_model(prompts_path, str(tmp_path / "p"), replace(CONFIG, engine="vllm"))
    assert {path.name for path in tmp_path.iterdir()} == {"prompts.parquet"}
