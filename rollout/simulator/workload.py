"""How long are the responses really?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollout.control.plan import Plan
from stages.tables.errors import AspError

NEVER = 2**40
"""Length [tokens] of a response that never ends: it decodes on until its time-out."""


@dataclass(frozen=True)
class Workload:
    """True lengths [tokens] by sample group of a plan."""

    lengths_g: Sequence[tuple[int, ...]]  # of each response; 0: given up, nothing to train on
    prompt_tokens_g: tuple[int, ...]
    unrewarded: frozenset[int] = frozenset()  # sample groups whose reward never comes

    def tokens(self, group: int) -> int:
        """Tokens that training sees: the prompt once for each response that came."""
        lengths = self.lengths_g[group]
        came = len(lengths) - lengths.count(0)
        return came * self.prompt_tokens_g[group] + sum(lengths)


def workload_of(
    plan: Plan,
    lengths: Callable[[int], Sequence[int]],
    prompt_tokens: Callable[[int], int] = lambda prompt_id: 0,
) -> Workload:
    """Look up every prompt of a plan.

    Args:
        plan: Whose sample groups are numbered.
        lengths: prompt_id to the lengths of its responses, at least as many as are asked for; it
            is called once a prompt and epoch, in dispatch order. Resampling is the caller's.
        prompt_tokens: prompt_id to the length of the prompt.

    Raises:
        AspError: A prompt has too few lengths, or a length below 1.
    """
    lengths_g = []
    for prompt, num_samples in zip(plan.prompt_g, plan.samples_g, strict=True):
        known = tuple(int(tokens) for tokens in lengths(prompt)[:num_samples])
        if len(known) < num_samples:
            raise AspError(
                f"prompt {prompt} has {len(known)} known lengths, the schedule asks for "
                f"{num_samples} responses; profile more, or resample"
            )
        if min(known) < 1:
            raise AspError(f"prompt {prompt} has a response of {min(known)} tokens; at least 1")
        lengths_g.append(known)
    return Workload(tuple(lengths_g), tuple(prompt_tokens(prompt) for prompt in plan.prompt_g))
