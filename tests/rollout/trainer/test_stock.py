"""Drafts as they go out and come back, are cut, judged and kept for a later run."""

import json

import pytest

from rollout.control.messages import HeldOver, Response, Work
from rollout.control.uniform import uniform_plan
from rollout.trainer.samples import Draft
from rollout.trainer.stock import Stock

PLAN = uniform_plan([7, 9], 2, 1, 2, budgets=(4,))
PROMPTS = {7: (1, 2), 9: (3,)}


def work_of(*responses: Response, budget: int | None = None) -> Work:
    return Work(0, 0, 0, budget, responses)


def grow(draft: Draft, num_tokens: int, end: str | None = None) -> Draft:
    """As an engine would, on version 1."""
    draft.token_ids += [5] * num_tokens
    draft.logprobs += [-1.0] * num_tokens
    draft.versions += [1] * num_tokens
    draft.end = end  # type: ignore[assignment]
    return draft


def stock_of(is_restarting: bool = False) -> Stock:
    return Stock(PLAN, PROMPTS, cap=10, is_restarting=is_restarting)


def test_a_cut_response_goes_on_from_its_tokens() -> None:
    stock = stock_of()
    head = work_of(Response(1, 0), Response(1, 1), budget=4)
    drafts = stock.hand_out(head)
    assert [(draft.prompt_ids, draft.limit) for draft in drafts] == [((3,), 4)] * 2
    stock.take_back([grow(drafts[0], 2, "stop"), grow(drafts[1], 4)])
    cut = stock.unfinished(drafts)
    stock.cut(cut)
    assert cut == [Response(1, 1, 4)]
    (tail,) = stock.hand_out(work_of(*cut))
    assert (len(tail.token_ids), tail.limit) == (4, 10)
    stock.take_back([grow(tail, 6)])
    assert tail.end == "length", "it stands at the cap"
    stock.judged(1, (0.5, 1.0))
    group = stock.sample_group(1, lag=2)
    assert (group.prompt_id, group.lag, group.is_masked) == (9, 2, False)
    assert [sample.reward for sample in group.samples] == [0.5, 1.0]
    assert [sample.end for sample in group.samples] == ["stop", "length"]
    assert stock.tokens_of(1) == stock.offered_tokens_of(1) == [2, 10]


def test_a_restarted_group_begins_again_and_its_first_lengths_are_kept() -> None:
    stock = stock_of(is_restarting=True)
    drafts = stock.hand_out(work_of(Response(0, 0), Response(0, 1), budget=4))
    stock.take_back([grow(drafts[0], 2, "stop"), grow(drafts[1], 4)])
    stock.cut(stock.unfinished(drafts))
    again = stock.hand_out(work_of(Response(0, 0), Response(0, 1)))
    assert [len(draft.token_ids) for draft in again] == [0, 0]
    stock.take_back([grow(again[0], 3, "stop"), grow(again[1], 1, "stop")])
    assert stock.tokens_of(0) == [3, 1]
    assert stock.offered_tokens_of(0) == [2, 4]


@pytest.mark.parametrize("what", ["response", "reward"])
def test_what_never_came_masks_its_group(what: str) -> None:
    stock = stock_of()
    drafts = stock.hand_out(work_of(Response(0, 0), Response(0, 1)))
    ends = ("abort" if what == "response" else "stop", "stop")
    stock.take_back(grow(draft, 3, end) for draft, end in zip(drafts, ends, strict=True))
    stock.judged(0, None if what == "reward" else (1.0, 1.0))
    assert stock.has_failed(0) and stock.sample_group(0, lag=0).is_masked


def test_a_later_run_goes_on_with_what_was_held() -> None:
    stock = stock_of(is_restarting=True)
    drafts = stock.hand_out(work_of(Response(1, 0), Response(1, 1), budget=4))
    stock.take_back([grow(drafts[0], 2, "stop"), grow(drafts[1], 4)])
    stock.cut(stock.unfinished(drafts))
    held = json.loads(json.dumps(stock.held([HeldOver(1, 2, None, ())])))
    later = stock_of(is_restarting=True)
    later.hold(held)
    assert later.hand_out(work_of(Response(1, 0), Response(1, 1))) == stock.hand_out(
        work_of(Response(1, 0), Response(1, 1))
    )
    assert later.offered_tokens_of(1) == [2, 4]
    later.forget([1])
    assert later.held([HeldOver(1, 2, None, ())]) == {"1": {"drafts": [], "first_cut": None}}
