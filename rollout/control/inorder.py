"""In which order are the Control Unit's commands carried out?

Carrying one out can be news, from which further commands follow; these wait for their turn. The
simulator and the trainer both do so.
"""

from collections import deque
from collections.abc import Callable, Sequence

from rollout.control.messages import Command


class InOrder:
    """Commands, each carried out when those before it have been."""

    def __init__(self, carry_out: Callable[[Command], None], note: Callable[[], None]) -> None:
        """Begin with none.

        Args:
            carry_out: Does one; it may call `do`.
            note: Is called before the first and after each, for what is written down of states.
        """
        self._carry_out = carry_out
        self._note = note
        self._commands: deque[Command] = deque()

    def do(self, commands: Sequence[Command]) -> None:
        """Carry out commands and those that follow from them, in the order in which they came."""
        is_outermost = not self._commands
        self._commands.extend(commands)
        if not is_outermost:
            return
        self._note()
        while self._commands:
            self._carry_out(self._commands[0])
            self._commands.popleft()
            self._note()
