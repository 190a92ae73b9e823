"""Asking a model: what is already answered, and what may still be asked."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import polars as pl

from stages.profile.allowance import Allowance
from stages.profile.engine import Answer, Batch, Engine, Sampling
from stages.profile.forecast import Outlook
from stages.profile.journal import Journal
from stages.profile.progress import metered
from stages.tables.errors import log


def ask(
    engine: Engine,
    batches: Sequence[Batch],
    journal: Journal,
    sampling: Sampling,
    allowance: Allowance,
    outlook: Outlook,
) -> dict[int, list[Answer]]:
    """Have batches answered that the journal does not hold, as many as the allowance buys.

    Returns:
        All answers by batch.
    """
    answers = journal.finished()
    num_responses = sum(len(batch.requests) for batch in batches)
    num_done = sum(len(batch.requests) for batch in batches if batch.number in answers)
    if num_done:
        log.info("resuming: %d of %d responses are in the journal", num_done, num_responses)
    with metered(num_responses, num_done) as meter:
        for batch in batches:
            _take_in(batch, answers.get(batch.number, ()), allowance, outlook)
        outlook.tell(meter.tokens_per_s, allowance.max_tokens)
        for batch in allowance.until_spent(b for b in batches if b.number not in answers):
            answered = engine.generate(batch, sampling, meter.add_tokens)
            assert len(answered) == len(batch.requests), "an engine answers every request"
            journal.record(batch.number, answered)
            answers[batch.number] = answered
            meter.add_responses(len(answered))
            _take_in(batch, answered, allowance, outlook)
            outlook.tell(meter.tokens_per_s, allowance.max_tokens)
    return answers


def _take_in(
    batch: Batch, answered: Sequence[Answer], allowance: Allowance, outlook: Outlook
) -> None:
    for request, answer in zip(batch.requests, answered, strict=False):
        allowance.spend(answer.response_tokens)
        outlook.look(request, answer)


def as_rows(batches: Sequence[Batch], answers: Mapping[int, Sequence[Answer]]) -> pl.DataFrame:
    """A row a response that was made: prompt_id, sample_index, and the fields of its Answer."""
    return pl.DataFrame(
        [
            {"prompt_id": request.prompt_id, "sample_index": request.sample_index} | asdict(answer)
            for batch in batches
            if batch.number in answers
            for request, answer in zip(batch.requests, answers[batch.number], strict=True)
        ],
        infer_schema_length=None,
    )
