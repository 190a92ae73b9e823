"""The policy run by vLLM in a Generation Unit: slots are refilled at any time.

Plain sampling: a token is drawn from softmax(logits / temperature), and its log-probability is
that of this distribution. New weights are read from the snapshot into the engine that is there. In
float32 on a CPU, in the precision of the snapshot on a GPU (not run on one yet).

Imports vLLM, so it is imported only where it was asked for.
"""

from collections.abc import Sequence
from pathlib import Path

from rollout.trainer.samples import Draft
from rollout.trainer.sealed import check_seal
from stages.tokens.vllm import Vllm


class VllmEngine:
    """A causal language model with slots; see `engine.Engine`."""

    def __init__(self, slots: int, room: int, temperature: float, seed: int) -> None:
        """Hold nothing yet; the first `load` starts vLLM.

        Args:
            slots: Responses decoded at once.
            room: Tokens of the longest prompt and response.
            temperature: Of the draws.
            seed: Of the draws, which hang on what is decoded together too.
        """
        self._slots = slots
        self._room = room
        self._temperature = temperature
        self._seed = seed
        self._version = -1
        self._vllm: Vllm | None = None
        self._drafts: dict[int, Draft] = {}

    @property
    def slots(self) -> int:
        """Responses that it decodes at once."""
        return self._slots

    @property
    def version(self) -> int:
        """Policy version of the loaded weights; -1 before the first `load`."""
        return self._version

    def load(self, version: int, snapshot: Path) -> None:
        """Replace the weights; the old ones stay if the snapshot is damaged.

        Raises:
            AspError: The snapshot is not as it was written, or holds no model.
        """
        assert not self._drafts, "weights are replaced in an empty engine"
        check_seal(snapshot)
        if self._vllm is None:
            name = str(snapshot)
            self._vllm = Vllm(name, "snapshot", self._slots, self._seed, self._room)
        else:
            self._version = -1
            self._vllm.reload(snapshot)
        self._version = version

    def add(self, drafts: Sequence[Draft]) -> None:
        """Take responses into free slots; they are prefilled by the next `decode`."""
        assert self._vllm is not None, "weights are loaded first"
        assert len(self._drafts) + len(drafts) <= self._slots
        for draft in drafts:
            assert draft.prompt_ids and draft.end is None and len(draft.token_ids) < draft.limit
            ids = [*draft.prompt_ids, *draft.token_ids]
            left = draft.limit - len(draft.token_ids)
            self._drafts[self._vllm.add(ids, self._temperature, left)] = draft

    def decode(self, num_steps: int) -> list[Draft]:
        """Decode up to `num_steps` tokens of each response; give back those that are through."""
        assert self._vllm is not None, "weights are loaded first"
        through: list[Draft] = []
        for _ in range(num_steps):
            if not self._drafts:
                break
            for made in self._vllm.step():
                draft = self._drafts[made.number]
                draft.token_ids += made.token_ids
                draft.logprobs += made.logprobs
                draft.versions += [self._version] * len(made.token_ids)
                if made.end is not None:
                    if made.end != "length":  # else it stands at its limit
                        draft.end = "stop" if made.end == "stop" else "abort"
                    through.append(self._drafts.pop(made.number))
        return through

    def put_down(self) -> list[Draft]:
        """Empty every slot; give back what was being decoded, with its tokens."""
        drafts = list(self._drafts.values())
        if self._vllm is not None:
            self._vllm.drop(self._drafts)
        self._drafts = {}
        return drafts
