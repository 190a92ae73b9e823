from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.trainer.samples import SampleGroup

MakeGroups = Callable[..., list[SampleGroup]]


@pytest.fixture(scope="module")
def model(model_dir: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_dir).eval()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_padding_does_not_change_a_score(
    model: Any, temperature: float, make_groups: MakeGroups
) -> None:
    """Against each sample alone, token by token, without a mask."""
    import torch

    from rollout.trainer.policy import lay_out, score

    samples = [s for group in make_groups([[0.0] * 3, [0.0] * 2]) for s in group.samples]
    rows = lay_out(samples, torch.device("cpu"))
    with torch.no_grad():
        logprob_t, entropy_t = score(model, rows, temperature)
        assert rows.row_t.bincount().tolist() == [len(s.token_ids) for s in samples]
        start = 0
        for sample in samples:
            ids = torch.tensor([[*sample.prompt_ids, *sample.token_ids]])
            logits = model(ids).logits[0] / temperature
            for place, token in enumerate(sample.token_ids.tolist(), len(sample.prompt_ids)):
                drawn = torch.distributions.Categorical(logits=logits[place - 1])
                expected = drawn.log_prob(torch.tensor(token))
                assert float(logprob_t[start]) == pytest.approx(float(expected), abs=1e-4)
                assert float(entropy_t[start]) == pytest.approx(float(drawn.entropy()), abs=1e-4)
                start += 1
    assert rows.spread([float(n) for n in range(5)]).tolist() == rows.row_t.tolist()


@settings(max_examples=50)
@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 120))
def test_micro_batches_hold_every_sequence_once_within_their_tokens(
    num_tokens: list[int], limit: int
) -> None:
    from rollout.trainer.policy import cut_by_tokens

    batches = cut_by_tokens(num_tokens, limit)
    assert sorted(place for batch in batches for place in batch) == list(range(len(num_tokens)))
    for batch in batches:
        padded = max(num_tokens[place] for place in batch) * len(batch)
        assert padded <= limit or len(batch) == 1


def test_micro_batches_by_hand() -> None:
    from rollout.trainer.policy import cut_by_tokens

    assert cut_by_tokens([3, 9, 4, 3, 20], 12) == [[4], [1], [2, 0, 3]]
