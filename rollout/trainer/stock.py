"""Which responses has the driver, and how far are they?

A draft is made when its sample group is first dispatched, grows elsewhere and comes back. Tokens
made by an actor that is lost are lost with it, since what was handed out was a copy.

Array legends: t tokens of one response.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rollout.control.messages import HeldOver, Response, Work
from rollout.control.plan import Plan
from rollout.trainer.samples import Draft, Sample, SampleGroup


class Stock:
    """Drafts of the sample groups that were begun and not trained on."""

    def __init__(
        self, plan: Plan, prompt_ids: Mapping[int, Sequence[int]], cap: int, is_restarting: bool
    ) -> None:
        """Begin empty.

        Args:
            plan: Whose sample groups are numbered.
            prompt_ids: Tokens of each prompt.
            cap: Most tokens of a response.
            is_restarting: Whether a cut sample group begins again, whole.
        """
        self._plan = plan
        self._prompt_ids = prompt_ids
        self._cap = cap
        self._is_restarting = is_restarting
        self._drafts: dict[int, list[Draft]] = {}
        self._rewards: dict[int, tuple[float, ...] | None] = {}  # None: it never came
        self._first_cut: dict[int, list[int]] = {}  # tokens of groups that began again

    def hand_out(self, work: Work) -> list[Draft]:
        """The drafts of a minibatch, which stop at its budget or the cap."""
        limit = self._cap if work.token_budget is None else min(self._cap, work.token_budget)
        for group in dict.fromkeys(response.group for response in work.responses):
            if group not in self._drafts:
                self._begin(group)
        drafts = [self._drafts[group][sample] for group, sample, _ in work.responses]
        for draft in drafts:
            draft.limit = limit
        return drafts

    def take_back(self, drafts: Iterable[Draft]) -> None:
        """As they came from an actor; one at the cap has ended there."""
        for draft in drafts:
            if draft.end is None and len(draft.token_ids) >= self._cap:
                draft.end = "length"
            self._drafts[draft.group][draft.sample] = draft

    def unfinished(self, drafts: Iterable[Draft]) -> list[Response]:
        """Those without an end, as the Control Unit names them."""
        return [Response(d.group, d.sample, len(d.token_ids)) for d in drafts if d.end is None]

    def cut(self, responses: Iterable[Response]) -> None:
        """Where cut groups begin again, what they have is thrown away; how far it got is kept."""
        if self._is_restarting:
            for group in dict.fromkeys(response.group for response in responses):
                self._first_cut.setdefault(group, self.tokens_of(group))
                self._begin(group)

    def judged(self, group: int, rewards: tuple[float, ...] | None) -> None:
        """Its rewards; None: they never came."""
        self._rewards[group] = rewards

    def has_failed(self, group: int) -> bool:
        """Whether a response or the rewards never came."""
        return self._rewards.get(group, ()) is None or any(
            draft.end == "abort" for draft in self._drafts[group]
        )

    def sample_group(self, group: int, lag: int) -> SampleGroup:
        """As it is trained on."""
        rewards = self._rewards[group] or (0.0,) * len(self._drafts[group])
        samples = tuple(
            _sample(draft, reward)
            for draft, reward in zip(self._drafts[group], rewards, strict=True)
        )
        return SampleGroup(group, self._plan.prompt_g[group], samples, lag, self.has_failed(group))

    def responses(self, group: int) -> list[list[int]]:
        """Token ids of each response."""
        return [draft.token_ids for draft in self._drafts[group]]

    def tokens_of(self, group: int) -> list[int]:
        """Tokens of each response."""
        return [len(draft.token_ids) for draft in self._drafts[group]]

    def offered_tokens_of(self, group: int) -> list[int]:
        """The same when it was first generated: as far as that went."""
        return self._first_cut.get(group) or self.tokens_of(group)

    def forget(self, groups: Iterable[int]) -> None:
        """They were trained on."""
        for group in groups:
            for kept in (self._drafts, self._rewards, self._first_cut):
                kept.pop(group, None)

    def held(self, held_over: Iterable[HeldOver]) -> dict[str, Any]:
        """What a later run needs of these sample groups, as JSON."""
        groups = [each.group for each in held_over]
        return {
            str(group): {
                "drafts": [asdict(draft) for draft in self._drafts.get(group, ())],
                "first_cut": self._first_cut.get(group),
            }
            for group in groups
        }

    def hold(self, held: dict[str, Any]) -> None:
        """Go on with what `held` gave."""
        for name, known in held.items():
            group = int(name)
            self._drafts[group] = [_draft(values) for values in known["drafts"]]
            if known["first_cut"] is not None:
                self._first_cut[group] = known["first_cut"]

    def _begin(self, group: int) -> None:
        prompt = tuple(self._prompt_ids[self._plan.prompt_g[group]])
        self._drafts[group] = [
            Draft(group, sample, prompt, self._cap) for sample in range(self._plan.samples_g[group])
        ]


def _draft(values: dict[str, Any]) -> Draft:
    return Draft(**{**values, "prompt_ids": tuple(values["prompt_ids"])})


def _sample(draft: Draft, reward: float) -> Sample:
    return Sample(
        np.array(draft.prompt_ids, dtype=np.int64),
        np.array(draft.token_ids, dtype=np.int64),
        np.array(draft.logprobs, dtype=np.float32),
        draft.end or "abort",
        reward,
    )
