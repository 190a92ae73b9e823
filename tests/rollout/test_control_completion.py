"""Responses end one by one; a sample group is complete with its last, and scored once."""

from rollout.control.completion import Completion
from rollout.control.messages import HeldOver, Response, Unfinished, Work


def test_a_group_is_complete_with_its_last_response_and_scored_once() -> None:
    completion = Completion([2, 1, 2])
    first = Work(0, 0, 0, 10, (Response(0, 0), Response(0, 1), Response(1, 0)))
    assert completion.ended(first, [Response(0, 1, 10)]) == (1,)
    assert completion.scored([0, 1, 1]) == [1] and completion.scored([1]) == []
    assert completion.ended(Work(1, 1, 1, None, (Response(0, 1, 10),)), []) == (0,)
    assert completion.scored([0]) == [0]


def test_a_group_that_begins_again_needs_all_its_responses() -> None:
    completion = Completion([2])
    both = Response(0, 0), Response(0, 1)
    assert completion.ended(Work(0, 0, 0, 10, both), [Response(0, 1, 10)]) == ()
    completion.restarted([Response(0, 1, 10)])
    assert completion.ended(Work(1, 1, 1, None, both[:1]), []) == ()
    assert completion.ended(Work(2, 1, 1, None, both[1:]), []) == (0,)


def test_what_was_begun_before_the_run_lacks_only_what_had_not_ended() -> None:
    completion = Completion([2, 2])
    left = Response(1, 1, 10)
    held = [HeldOver(0, 1, 0, ()), HeldOver(1, 1, 0, (Unfinished(1, 1, left),))]
    assert completion.resumed(held) == (0,)
    assert completion.ended(Work(0, 1, 1, None, (left,)), []) == (1,)
    assert completion.scored([0, 1]) == [0, 1]
