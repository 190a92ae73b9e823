import logging

import pytest
import torch

from stages.predictor.transformer.memory import Memory
from stages.tables.errors import AspError


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_it_goes_on_with_what_fits_and_says_so(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def work(tokens: int) -> int:
        if tokens > 300:
            raise error
        return tokens

    memory = Memory(1024)
    with caplog.at_level(logging.WARNING, logger="asp"):
        assert memory.attempt(work) == 256
    assert memory.attempt(work) == 256
    assert [r.getMessage() for r in caplog.records] == [
        "out of memory: going on with batches of 512 tokens",
        "out of memory: going on with batches of 256 tokens",
    ]


def test_where_nothing_fits_the_way_out_is_named() -> None:
    def work(tokens: int) -> None:
        raise torch.cuda.OutOfMemoryError

    with pytest.raises(AspError, match="--max-prompt-tokens"):
        Memory(4).attempt(work)


def test_other_errors_are_not_taken_for_it() -> None:
    def work(tokens: int) -> None:
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        Memory(4).attempt(work)
