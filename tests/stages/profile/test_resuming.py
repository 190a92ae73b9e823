"""A thousand runs killed at random points: each, resumed, ends as if it had never been killed."""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from stages.profile.allowance import Allowance
from stages.profile.asking import as_rows, ask
from stages.profile.engine import (
    Answer,
    Batch,
    Engine,
    Finished,
    InBatches,
    Key,
    OnTokens,
    Request,
    Sampling,
)
from stages.profile.forecast import Outlook
from stages.profile.journal import Journal, open_journal

REQUESTS = [Request(prompt, "?", sample) for prompt in (4, 2, 0) for sample in range(3)]
NUM_RUNS = 500  # of each kind of engine


class Killed(BaseException):
    """Like SIGKILL it is not caught on the way."""


class Dying:
    """An engine whose every answer hangs on its request alone; dies after so many of them."""

    model = "m"

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.dies_after = 10**9  # answers
        self.answered: list[Key] = []

    def describe(self) -> dict[str, Any]:
        return {}

    def make(self, request: Request, seed: int) -> Answer:
        if len(self.answered) == self.dies_after:
            raise Killed
        self.answered.append(request.key)
        return Answer(1 + hash((*request.key, seed)) % 50, "stop")


class InFlight(Dying):
    """Answers in any order, any number at once, as servers do."""

    def answer(
        self, requests: Iterable[Request], sampling: Sampling, on_tokens: OnTokens
    ) -> Generator[Finished, None, None]:
        wanted = list(requests)
        left = [wanted[at] for at in self._rng.permutation(len(wanted))]
        while left:
            at = int(self._rng.integers(1, 4))
            taken, left = left[:at], left[at:]
            yield [(request, self.make(request, 0)) for request in taken]


class BatchWise(Dying):
    """Answers a batch at a time; lengths hang on the batch's seed."""

    def generate(self, batch: Batch, sampling: Sampling, on_tokens: OnTokens) -> list[Answer]:
        return [self.make(request, batch.seed) for request in batch.requests]


def opened(kind: type[Dying], rng: np.random.Generator) -> tuple[Dying, Engine]:
    dying = kind(rng)
    engine: Any = InBatches(dying, 4, seed=3) if isinstance(dying, BatchWise) else dying
    return dying, engine


def rows_of(engine: Engine, journal: Journal) -> pl.DataFrame:
    """The responses, without a budget; what they will cost is told after the first."""
    outlook = Outlook(REQUESTS[:1], [3, 3, 3], 64, 0)
    sampling, allowance = Sampling(1.0, 64), Allowance(None)
    return as_rows(REQUESTS, ask(engine, REQUESTS, journal, sampling, allowance, outlook))


@pytest.mark.parametrize("kind", [InFlight, BatchWise])
def test_killed_at_random_points(kind: type[Dying], tmp_path: Path) -> None:
    output, rng = str(tmp_path / "p.parquet"), np.random.default_rng(0)
    with open_journal("-", {}, False) as journal:
        whole = rows_of(opened(kind, rng)[1], journal)
    num_killed = 0
    while num_killed < NUM_RUNS:
        dying, engine = opened(kind, rng)
        dying.dies_after = int(rng.integers(len(REQUESTS) + 1))
        with open_journal(output, {}, False) as journal:
            kept = set(journal.finished())
            try:
                rows = rows_of(engine, journal)
            except Killed:
                num_killed += 1
            else:
                assert rows.equals(whole)
                journal.discard()
        assert not kept & set(dying.answered)
