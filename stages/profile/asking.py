"""Asking a model: which requests, in which batches, and what is already answered."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import polars as pl

from stages.profile.engine import Answer, Batch, Engine, Request, Sampling
from stages.profile.journal import Journal
from stages.profile.progress import metered
from stages.tables.errors import log
from stages.tables.prompt_survey import PromptFile


def requests_for(
    sample: pl.DataFrame, prompts: PromptFile, rollouts_per_prompt: int
) -> list[Request]:
    """The requests in the order they are made: long prompts first, a prompt's together.

    Prompts of like length pad each other little, and memory that runs out does so at the start.
    """
    descending = sample.sort(
        pl.col("prompt").str.len_chars(), "prompt_id", descending=[True, False]
    )
    return [
        Request(prompt_id, prompts.raw[prompt_id], sample_index)
        for prompt_id in descending.get_column("prompt_id")
        for sample_index in range(rollouts_per_prompt)
    ]


def ask(
    engine: Engine, batches: Sequence[Batch], journal: Journal, sampling: Sampling
) -> dict[int, list[Answer]]:
    """Have every batch answered that the journal does not hold; return all answers by batch."""
    answers = journal.finished()
    num_responses = sum(len(batch.requests) for batch in batches)
    num_done = sum(len(batch.requests) for batch in batches if batch.number in answers)
    if num_done:
        log.info("resuming: %d of %d responses are in the journal", num_done, num_responses)
    with metered(num_responses, num_done) as meter:
        for batch in batches:
            if batch.number in answers:
                continue
            answered = engine.generate(batch, sampling, meter.add_tokens)
            assert len(answered) == len(batch.requests), "an engine answers every request"
            journal.record(batch.number, answered)
            answers[batch.number] = answered
            meter.add_responses(len(answered))
    return answers


def as_rows(batches: Sequence[Batch], answers: Mapping[int, Sequence[Answer]]) -> pl.DataFrame:
    """A row a response: prompt_id, sample_index, and the fields of its Answer."""
    return pl.DataFrame(
        [
            {"prompt_id": request.prompt_id, "sample_index": request.sample_index} | asdict(answer)
            for batch in batches
            for request, answer in zip(batch.requests, answers[batch.number], strict=True)
        ],
        infer_schema_length=None,
    )
