"""vLLM in this process: responses are begun and dropped at any time, and decoded step by step.

The one place that knows vLLM's interface. It runs in the process that asks, so nothing of it is
left behind when that is killed. vLLM is imported with this module, so this one is imported only
where vLLM was asked for.
"""

import itertools
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

from vllm import EngineArgs, LLMEngine, SamplingParams  # reads its environment
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind

from stages.tokens.tokenizer import load_pretrained


class Made(NamedTuple):
    """What a step made of one response."""

    number: int  # that `add` gave
    token_ids: Sequence[int]
    logprobs: Sequence[float]  # of each token, in the distribution that it was drawn from
    end: str | None  # vLLM's word, such as stop or length; None: it goes on


class Vllm:
    """A causal language model: in its own precision on a GPU, in float32 on a CPU."""

    def __init__(
        self, name: str, flag: str, slots: int, seed: int, room: int | None = None
    ) -> None:
        """Load a directory, or a name of the model hub.

        Args:
            name: Which model.
            flag: That named it, for messages.
            slots: Responses that are decoded together at most.
            seed: Of the draws, which hang on what is decoded together too.
            room: Tokens of the longest prompt and response; None: what the model was made for.

        Raises:
            AspError: There is no model that can be loaded.
        """
        # Few CPUs compute in bfloat16; the others emulate it. To compile does not pay there.
        of_cpu: dict[str, Any] = {
            "dtype": "float32", "enforce_eager": True, "distributed_executor_backend": "uni",
        }  # fmt: skip

        def start() -> Any:
            arguments = EngineArgs(
                model=name,
                max_model_len=room,
                max_num_seqs=slots,
                seed=seed,
                logprobs_mode="processed_logprobs",  # after the temperature
                generation_config="vllm",  # what a model recommends for chatting is left out
                disable_log_stats=True,
                use_tqdm_on_load=False,
                **(of_cpu if current_platform.is_cpu() else {}),
            )
            return LLMEngine.from_engine_args(arguments)

        self._engine = load_pretrained(start, name, flag, "a language model")
        self._numbers = itertools.count()

    @property
    def room(self) -> int:
        """Tokens of the longest response that it can hold, its prompt included."""
        return int(self._engine.model_config.max_model_len)

    @property
    def dtype(self) -> str:
        """Of the weights."""
        return str(self._engine.model_config.dtype).removeprefix("torch.")

    def add(self, token_ids: Sequence[int], temperature: float, max_tokens: int) -> int:
        """Begin a response of at most so many tokens; return its number.

        `token_ids`, of the prompt and what there is of the response, must leave room for one.
        """
        number = next(self._numbers)
        sampling = SamplingParams(
            temperature=temperature,
            max_tokens=max_tokens,
            logprobs=0,  # of the token that was drawn, and no other
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        self._engine.add_request(str(number), {"prompt_token_ids": list(token_ids)}, sampling)
        return number

    def step(self) -> Iterable[Made]:
        """Decode a token or so of each response; what has an end has left its slot."""
        for output in self._engine.step():
            (choice,) = output.outputs
            yield Made(
                int(output.request_id),
                list(choice.token_ids),
                [
                    of_token[token].logprob
                    for token, of_token in zip(choice.token_ids, choice.logprobs, strict=True)
                ],
                choice.finish_reason,
            )

    def drop(self, numbers: Collection[int]) -> None:
        """Put responses down; nothing more is heard of them."""
        self._engine.abort_request([str(number) for number in numbers])

    def reload(self, folder: Path) -> None:
        """Replace the weights by those of a model directory; only while no response is made.

        Raises:
            AspError: It holds no such weights.
        """
        load_pretrained(
            lambda: self._engine.collective_rpc(
                "reload_weights", kwargs={"weights_path": str(folder)}
            ),
            str(folder), "snapshot", "weights of this model",
        )  # fmt: skip
        if current_platform.is_cpu():
            self._engine.collective_rpc(_pack_heads)
        self._engine.reset_prefix_cache()  # it holds what the old weights made of the prompts


def _pack_heads(worker: Any) -> None:
    """Pack output layers anew: on a CPU they compute with a copy.

    vLLM 0.32 forgets it where the layer is tied to the embeddings, whose weights are loaded under
    another name: then embeddings were new, and logits still came from the old ones.
    """
    for layer in worker.get_model().modules():
        if isinstance(layer, ParallelLMHead):
            layer.quant_method.process_weights_after_loading(layer)
