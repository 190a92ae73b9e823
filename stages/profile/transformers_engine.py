"""The target model run by transformers on this machine: one batch at a time, on GPU or CPU.

Slow beside a serving engine, yet it needs none. Plain sampling at the temperature asked for: the
top-p, top-k and repetition penalty that a model's generation_config recommends for chatting are
left out, since RL training samples without them.

Imports torch and transformers, so it is imported only where a model was asked for.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    StoppingCriteria,
    StoppingCriteriaList,
)

from stages.profile.engine import Answer, Batch, OnTokens, Sampling
from stages.tables.errors import AspError, Once, log
from stages.tokens.tokenizer import PromptTokenizer, load_pretrained

_REPORT_EVERY = 16  # decode steps; reading the count makes the GPU wait


class TransformersEngine:
    """A causal language model with its tokenizer: float32 on a CPU, bfloat16 on a GPU."""

    def __init__(
        self,
        name: str,
        uses_template: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Load a directory, or a name of the model hub.

        Raises:
            AspError: It holds no tokenizer or no model that can be loaded.
        """
        self._tokenizer = PromptTokenizer(name, "--model", uses_template)
        self._clock = clock
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dtype = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        model: Any = load_pretrained(
            lambda: AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype),
            name, "--model", "a language model",
        )  # fmt: skip
        self._model = model.to(self._device).eval()
        self._end_ids = end_ids(model.generation_config, self._tokenizer.tokenizer)
        if not self._end_ids:
            log.warning("--model %s: names no end token: every response will run to its cap", name)
        model.generation_config = GenerationConfig()  # what it recommends is not to be mixed in
        self._once = Once()

    @property
    def model(self) -> str:
        """The name without where it lies."""
        return self._tokenizer.name

    def describe(self) -> dict[str, Any]:
        """Precision, template, and hashes by which another model of the same name is noticed."""
        return {
            "engine": "transformers",
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "chat_template": self._tokenizer.has_template,
            "tokenizer_sha256": self._tokenizer.digest(),
            "weights_sample_sha256": _weights_sample(self._model),
        }

    def generate(self, batch: Batch, sampling: Sampling, on_tokens: OnTokens) -> list[Answer]:
        """Answer every request; all are decoded together until the last one ends."""
        prompts = [self._tokenizer.encode_prompt(request.prompt) for request in batch.requests]
        self._check_positions(max(map(len, prompts)) + sampling.max_response_tokens)
        input_ids, attention_mask = self._left_padded(prompts)
        steps = _Steps(self._end_ids, self._clock, on_tokens)
        torch.manual_seed(batch.seed)
        start_s = self._clock()
        try:
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=input_ids,
                    attention_mask=attention_mask,
                    generation_config=self._settings(sampling),
                    stopping_criteria=StoppingCriteriaList([steps]),
                )
        except torch.cuda.OutOfMemoryError:
            raise AspError(
                f"--batch-size {len(prompts)}: the GPU's memory does not hold "
                f"{len(prompts)} responses of up to {sampling.max_response_tokens} tokens; "
                "give a smaller one, with --force to start over"
            ) from None
        made = output[:, input_ids.shape[1] :].tolist()
        answers = [
            self._answer(ids, len(prompt), [t - start_s for t in steps.times_s], len(prompts))
            for ids, prompt in zip(made, prompts, strict=True)
        ]
        on_tokens(sum(answer.response_tokens for answer in answers) - steps.num_reported)
        return answers

    def _answer(
        self, ids: Sequence[int], prompt_tokens: int, times_s: Sequence[float], concurrency: int
    ) -> Answer:
        """A row of generated ids: up to its first end token, or all of them, at the cap."""
        end = next((at for at, token in enumerate(ids) if token in self._end_ids), None)
        num_tokens = len(ids) if end is None else end + 1
        return Answer(
            response_tokens=num_tokens,
            finish_reason="length" if end is None else "stop",
            prompt_tokens=prompt_tokens,
            latency_s=times_s[num_tokens - 1],
            ttft_s=times_s[0],
            concurrency=concurrency,
        )

    def _settings(self, sampling: Sampling) -> GenerationConfig:
        drawn = {"temperature": sampling.temperature, "top_k": 0, "top_p": 1.0}
        return GenerationConfig(
            max_new_tokens=sampling.max_response_tokens,
            do_sample=sampling.temperature > 0,
            eos_token_id=sorted(self._end_ids) or None,
            pad_token_id=self._pad_id(),
            **(drawn if sampling.temperature > 0 else {}),
        )

    def _pad_id(self) -> int:
        """Any id serves: padding is masked, and a row is read up to its first end token only."""
        pad_id = self._tokenizer.tokenizer.pad_token_id
        return int(pad_id) if pad_id is not None else min(self._end_ids, default=0)

    def _left_padded(self, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask (b requests, t tokens); on the left, as generation goes on at the right."""
        width = max(map(len, prompts))
        ids_bt = [[self._pad_id()] * (width - len(ids)) + list(ids) for ids in prompts]
        mask_bt = [[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]
        return (
            torch.tensor(ids_bt, device=self._device),
            torch.tensor(mask_bt, device=self._device),
        )

    def _check_positions(self, num_positions: int) -> None:
        known = getattr(self._model.config, "max_position_embeddings", None)
        if known is not None and num_positions > known:
            self._once.warn(
                "a prompt and its response may take %d tokens, more than the %d that the model "
                "was made for; give a smaller --max-response-tokens",
                num_positions, known,
            )  # fmt: skip


class _Steps(StoppingCriteria):  # type: ignore[misc]
    """Stops nothing: notes when each decode step ended, and reports the tokens made."""

    def __init__(
        self, end_ids: frozenset[int], clock: Callable[[], float], on_tokens: OnTokens
    ) -> None:
        self.times_s: list[float] = []
        self.num_reported = 0
        self._end_ids = torch.tensor(sorted(end_ids))
        self._clock = clock
        self._on_tokens = on_tokens
        self._is_open: torch.Tensor | None = None  # per request: no end token yet
        self._num_tokens: torch.Tensor | int = 0

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self.times_s.append(self._clock())
        last = input_ids[:, -1]
        if self._is_open is None:
            self._is_open = torch.ones_like(last, dtype=torch.bool)
            self._end_ids = self._end_ids.to(last)
        self._num_tokens = self._num_tokens + self._is_open.sum()
        self._is_open &= ~torch.isin(last, self._end_ids)
        if len(self.times_s) % _REPORT_EVERY == 0:
            num_tokens = int(self._num_tokens)
            self._on_tokens(num_tokens - self.num_reported)
            self.num_reported = num_tokens
        return torch.zeros_like(last, dtype=torch.bool)


def end_ids(settings: Any, tokenizer: Any) -> frozenset[int]:
    """The end tokens of the model's generation_config, else the tokenizer's."""
    ids = settings.eos_token_id if settings is not None else None
    if ids is None:
        ids = tokenizer.eos_token_id
    if ids is None:
        return frozenset()
    return frozenset(ids if isinstance(ids, list) else [ids])


def _weights_sample(model: Any) -> str:
    """sha256 over the first values of every parameter: checkpoints of one training differ in it."""
    digest = hashlib.sha256()
    for name, values in model.named_parameters():
        first = values.detach().flatten()[:16].float().cpu().numpy()
        digest.update(f"{name} {tuple(values.shape)}".encode() + first.tobytes())
    return digest.hexdigest()
