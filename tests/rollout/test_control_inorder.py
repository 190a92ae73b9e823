"""Commands that follow from commands wait for their turn."""

from rollout.control.inorder import InOrder
from rollout.control.messages import Command, Score


def test_what_follows_comes_after_what_was_there() -> None:
    done: list[str] = []

    def carry_out(command: Command) -> None:
        assert isinstance(command, Score)
        done.append(f"do {command.groups[0]}")
        if command.groups[0] < 3:
            orders.do([Score((command.groups[0] * 10,)), Score((command.groups[0] * 10 + 1,))])

    orders = InOrder(carry_out, lambda: done.append("note"))
    orders.do([Score((1,)), Score((2,))])
    told = [each for each in done if each != "note"]
    assert told == ["do 1", "do 2", "do 10", "do 11", "do 20", "do 21"]
    assert done[0] == "note" and done[1::2] == told and len(done) == 13
    orders.do([Score((5,))])
    assert done[-3:] == ["note", "do 5", "note"]
