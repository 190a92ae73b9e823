"""The policy run by transformers in a Generation Unit: one static minibatch at a time.

All responses are prefilled together, left-padded, and decoded in step with a KV cache; one that
ends leaves the batch, its slot stays empty until responses are added. Those that are added while
others are decoded make all of them be prefilled anew.

Plain sampling: a token is drawn from softmax(logits / temperature), and its log-probability is
that of this distribution. float32 on a CPU, bfloat16 on a GPU (not run on one yet).

Arrays end in an axis legend: b responses being decoded, w tokens so far, v the vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from rollout.trainer.samples import Draft
from rollout.trainer.sealed import check_seal
from stages.profile.transformers_engine import end_ids
from stages.tables.errors import AspError
from stages.tokens.tokenizer import load_pretrained


class TransformersEngine:
    """A causal language model with slots; see `engine.Engine`."""

    def __init__(self, slots: int, temperature: float, seed: int) -> None:
        """Hold nothing yet; `load` brings the weights.

        Raises:
            AspError: A number of slots or a temperature that can't be.
        """
        if slots < 1:
            raise AspError(f"slots is {slots}: an engine needs at least 1")
        if not 0 < temperature < float("inf"):
            raise AspError(f"temperature is {temperature}: sampling needs a number above 0")
        self._slots = slots
        self._temperature = temperature
        self._version = -1
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._generator = torch.Generator(self._device).manual_seed(seed)
        self._model: Any = None
        self._end_ids: frozenset[int] = frozenset()
        self._drafts: list[Draft] = []
        self._cache: Any = None  # None: to be prefilled
        self._mask_bw = torch.empty(0)
        self._last_b1 = torch.empty(0)  # the token that each row has not been run on

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
        dtype = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        name, flag = str(snapshot), "snapshot"
        self._model, self._version = None, -1  # the memory is needed
        model = load_pretrained(
            lambda: AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype),
            name, flag, "a language model",
        )  # fmt: skip
        tokenizer = load_pretrained(
            lambda: AutoTokenizer.from_pretrained(name), name, flag, "a tokenizer"
        )
        self._end_ids = end_ids(model.generation_config, tokenizer)
        self._model = model.to(self._device).eval()
        self._version = version

    def add(self, drafts: Sequence[Draft]) -> None:
        """Take responses into free slots; they are prefilled by the next `decode`."""
        assert len(self._drafts) + len(drafts) <= self._slots
        assert all(d.prompt_ids and d.end is None and len(d.token_ids) < d.limit for d in drafts)
        self._drafts += drafts
        self._cache = None

    @torch.inference_mode()
    def decode(self, num_steps: int) -> list[Draft]:
        """Decode up to `num_steps` tokens of each response; give back those that are through."""
        through: list[Draft] = []
        for _ in range(num_steps):
            if not self._drafts:
                break
            through += self._step()
        return through

    def put_down(self) -> list[Draft]:
        """Empty every slot; give back what was being decoded, with its tokens."""
        drafts, self._drafts, self._cache = self._drafts, [], None
        return drafts

    def _step(self) -> list[Draft]:
        """Draw a token of each response; take those that are through out of the batch."""
        logits_bv = self._prefill() if self._cache is None else self._run(self._last_b1)
        logprobs_bv = (logits_bv.float() / self._temperature).log_softmax(-1)
        self._last_b1 = logprobs_bv.exp().multinomial(1, generator=self._generator)
        tokens = self._last_b1[:, 0].tolist()
        logprobs = logprobs_bv.gather(-1, self._last_b1)[:, 0].tolist()
        for draft, token, logprob in zip(self._drafts, tokens, logprobs, strict=True):
            draft.token_ids.append(token)
            draft.logprobs.append(logprob)
            draft.versions.append(self._version)
            if token in self._end_ids:
                draft.end = "stop"
        is_through = [d.end is not None or len(d.token_ids) >= d.limit for d in self._drafts]
        through = [draft for draft, is_out in zip(self._drafts, is_through, strict=True) if is_out]
        if through:
            self._keep([row for row, is_out in enumerate(is_through) if not is_out])
        return through

    def _prefill(self) -> Tensor:
        """Run all responses from their prompts on, with the tokens that they have."""
        rows = [[*draft.prompt_ids, *draft.token_ids] for draft in self._drafts]
        width = max(map(len, rows))
        ids_bw = [[0] * (width - len(row)) + row for row in rows]  # what pads is masked
        mask_bw = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        self._mask_bw = torch.tensor(mask_bw, device=self._device)
        return self._forward(
            torch.tensor(ids_bw, device=self._device), (self._mask_bw.cumsum(-1) - 1).clamp(min=0)
        )

    def _run(self, last_b1: Tensor) -> Tensor:
        """Run each response on its last token."""
        self._mask_bw = torch.cat((self._mask_bw, torch.ones_like(last_b1)), dim=1)
        return self._forward(last_b1, self._mask_bw.sum(-1, keepdim=True) - 1)

    def _forward(self, ids_bw: Tensor, positions_bw: Tensor) -> Tensor:
        """Logits of the next token of each row, (b, v)."""
        output = self._model(
            input_ids=ids_bw,
            attention_mask=self._mask_bw,
            position_ids=positions_bw,
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cache = output.past_key_values
        logits_bv: Tensor = output.logits[:, -1]
        return logits_bv

    def _keep(self, rows: list[int]) -> None:
        """Drop all other rows from the batch."""
        self._drafts = [self._drafts[row] for row in rows]
        if rows:
            kept = torch.tensor(rows, device=self._device)
            self._cache.batch_select_indices(kept)
            self._mask_bw, self._last_b1 = self._mask_bw[kept], self._last_b1[kept]
        else:
            self._cache = None
