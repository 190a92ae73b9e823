"""Asking a model: what is already answered, and what may still be asked."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict

import polars as pl

from stages.profile.allowance import Allowance
from stages.profile.engine import Answer, Engine, Key, Request, Sampling
from stages.profile.forecast import Outlook
from stages.profile.journal import Journal
from stages.profile.progress import metered
from stages.tables.errors import log


def ask(
    engine: Engine,
    requests: Sequence[Request],
    journal: Journal,
    sampling: Sampling,
    allowance: Allowance,
    outlook: Outlook,
) -> dict[Key, Answer]:
    """Have requests answered that the journal does not hold, as many as the allowance buys.

    What an engine leaves out has no answer.

    Returns:
        All answers by key.

    Raises:
        Unanswered: Some cannot be had now; the journal holds the others.
    """
    answers = journal.finished()
    unasked = [request for request in requests if request.key not in answers]
    done = [(request, answers[request.key]) for request in requests if request.key in answers]
    if done:
        log.info("resuming: %d of %d responses are in the journal", len(done), len(requests))
    with metered(len(requests), len(done)) as meter:
        for request, answer in done:
            allowance.spend(answer.response_tokens)
            outlook.look(request, answer)
        is_over = not unasked or allowance.is_spent
        outlook.tell(meter.tokens_per_s, allowance.max_tokens, is_over)
        if is_over:
            return answers

        def on_tokens(num_tokens: int) -> None:
            meter.add_tokens(num_tokens)
            allowance.spend(num_tokens)

        left = allowance.until_spent(unasked)
        with closing(engine.answer(left, sampling, on_tokens)) as answered:
            for news in answered:
                finished = [(request, answer) for request, answer in news if answer is not None]
                journal.record(finished)
                answers.update((request.key, answer) for request, answer in finished)
                meter.add_responses(len(news))
                for request, outcome in news:
                    outlook.look(request, outcome)
                outlook.tell(meter.tokens_per_s, allowance.max_tokens)
        outlook.tell(meter.tokens_per_s, allowance.max_tokens, is_over=True)
    return answers


def as_rows(requests: Sequence[Request], answers: Mapping[Key, Answer]) -> pl.DataFrame:
    """A row a request that was answered: prompt_id, sample_index, and the fields of its Answer."""
    return pl.DataFrame(
        [
            {"prompt_id": request.prompt_id, "sample_index": request.sample_index}
            | asdict(answers[request.key])
            for request in requests
            if request.key in answers
        ],
        infer_schema_length=None,
    )
