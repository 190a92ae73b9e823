"""The target model run by vLLM on this machine: many responses at once, its slots refilled.

Plain sampling at the temperature asked for, as `transformers_engine.py` does it. Requests carry no
seed, which kills some of vLLM's engines, so a profile is not the same twice. How many responses are
decoded together is vLLM's affair: `concurrency` and the times stay null.

Imports vLLM, so it is imported only where it was asked for.
"""

from collections.abc import Sequence
from typing import Any

import vllm

from stages.profile.engine import Answer, Batch, FinishReason, OnTokens, Sampling
from stages.tables.errors import AspError
from stages.tokens.tokenizer import PromptTokenizer, load_pretrained

_ENDS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}  # all else: abort


class VllmEngine:
    """A causal language model in vLLM, with the tokenizer of this toolchain."""

    def __init__(self, name: str, uses_template: bool = True) -> None:
        """Load a directory, or a name of the model hub.

        Raises:
            AspError: It holds no tokenizer or no model that can be loaded.
        """
        self._tokenizer = PromptTokenizer(name, "--model", uses_template)
        self._engine: Any = load_pretrained(
            lambda: vllm.LLM(model=name, generation_config="vllm", disable_log_stats=True),
            name, "--model", "a language model",
        )  # fmt: skip

    @property
    def model(self) -> str:
        """The name without where it lies."""
        return self._tokenizer.name

    def describe(self) -> dict[str, Any]:
        """Precision and template; vLLM does not show its weights, so it has no hash of them."""
        config = self._engine.llm_engine.model_config
        return {
            "engine": "vllm",
            "dtype": str(config.dtype).removeprefix("torch."),
            "chat_template": self._tokenizer.has_template,
            "tokenizer_sha256": self._tokenizer.digest(),
        }

    def generate(self, batch: Batch, sampling: Sampling, on_tokens: OnTokens) -> list[Answer]:
        """Answer every request, in their order.

        Raises:
            AspError: A prompt is too long for the model.
        """
        prompts = [self._tokenizer.encode_prompt(request.prompt) for request in batch.requests]
        self._check_room(prompts)
        done = self._engine.generate(
            [{"prompt_token_ids": ids} for ids in prompts],
            vllm.SamplingParams(
                temperature=sampling.temperature, max_tokens=sampling.max_response_tokens
            ),
            use_tqdm=False,
        )
        answers = [
            Answer(
                response_tokens=len(made.outputs[0].token_ids),
                finish_reason=_ENDS.get(made.outputs[0].finish_reason or "", "abort"),
                prompt_tokens=len(prompt),
            )
            for made, prompt in zip(done, prompts, strict=True)
        ]
        on_tokens(sum(answer.response_tokens for answer in answers))
        return answers

    def _check_room(self, prompts: Sequence[Sequence[int]]) -> None:
        room = self._engine.llm_engine.model_config.max_model_len
        longest = max(map(len, prompts))
        if longest >= room:
            raise AspError(
                f"--model {self.model}: a prompt has {longest} tokens, and the model takes {room}, "
                "response included; leave such prompts out"
            )
