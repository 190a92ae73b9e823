"""Make the sample of each trainer's log in `samples/`.

verl's is written by verl 0.9.1 itself, two prompts a step, two responses a prompt. The others are
written from the fields that their sources document. The tokenizer is that of `tests/tiny.py`; where
a log holds token ids only single bytes are used, which it has whatever else it learns.

    python tests/stages/profile/logs/make_samples.py          # all but verl's
    python tests/stages/profile/logs/make_samples.py verl     # where verl is installed
"""

import json
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[3]))
from tiny import TEMPLATE, byte_tokenizer

SAMPLES = Path(__file__).parent / "samples"
QUESTIONS = ["What is one plus two?", "Add two and two.", "Add one.", "Not asked: add user."]
ANSWERS = ["three", "four, as all know", "to what?", "no"]
Ids = list[int]


def tokenizer() -> Any:
    text = "user assistant system What is one plus two? Add them."
    return byte_tokenizer(text, 320, ["<|pad|>", "<|start|>", "<|end|>"], TEMPLATE)


def templated(question: str) -> str:
    return f"<|start|>user\n{question}<|end|>\n<|start|>assistant\n"


def byte_ids(text: str) -> Ids:
    """Ids of a text, a byte each; specials whole."""
    made = tokenizer()
    pieces = text.replace("<|", "\0<|").replace("|>", "|>\0").split("\0")
    ids: Ids = []
    for piece in filter(None, pieces):
        shown = [piece] if piece.startswith("<|") else piece.replace("\n", "Ċ").replace(" ", "Ġ")
        ids += [made.convert_tokens_to_ids(token) for token in shown]
    return ids


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def prompts() -> None:
    rows = [
        {"prompt": [{"role": "user", "content": q}], "id": f"q{n}", "domain": "sums"}
        for n, q in enumerate(QUESTIONS[:3])
    ]
    write_lines(SAMPLES / "prompts.jsonl", rows)


def verl() -> None:
    from verl import DataProto
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    made = tokenizer()
    for step, numbers in ((1, (0, 1)), (2, (2, 3))):
        prompt_ids, response_ids = [], []
        for number in numbers:
            for sample in range(2):
                message = [{"role": "user", "content": QUESTIONS[number]}]
                ids = made.apply_chat_template(
                    message, add_generation_prompt=True, return_dict=False
                )
                answer = made(ANSWERS[number] + "!" * sample)["input_ids"]
                prompt_ids.append(torch.tensor([0] * (48 - len(ids)) + ids))
                response_ids.append(torch.tensor((answer + [2] + [0] * 48)[:48]))
        tensors = {
            "prompts": torch.stack(prompt_ids),
            "responses": torch.stack(response_ids),
            "token_level_scores": torch.zeros(4, 48),
        }
        truths = np.array([{"ground_truth": ANSWERS[n]} for n in numbers for _ in "ab"], object)
        trainer = object.__new__(RayPPOTrainer)
        trainer.tokenizer, trainer.global_steps = made, step
        trainer._init_dump_executor()
        batch = DataProto.from_dict(tensors, {"reward_model": truths})
        trainer._log_rollout_data(batch, {}, {}, str(SAMPLES / "verl"))
        trainer._shutdown_dump_executor()


def slime() -> None:
    def sample(number: int, at: int, **changes: Any) -> dict[str, Any]:
        prompt, response = byte_ids(templated(QUESTIONS[number])), byte_ids(ANSWERS[number])
        length = len(response) + 1
        held = {
            "group_index": number, "index": 2 * number + at, "rollout_id": None,
            "prompt": templated(QUESTIONS[number]), "tokens": [*prompt, *response, 2],
            "response": ANSWERS[number], "response_length": length, "label": None, "reward": 0.0,
            "loss_mask": None, "weight_versions": ["1"], "rollout_log_probs": [-0.5] * length,
            "status": "completed", "metadata": {"id": f"q{number}"},
        }  # fmt: skip
        return held | changes

    after_tool = {"loss_mask": [1, 1, 0, 0, 1, 1], "rollout_log_probs": [-1, -1, 0, 0, -1, -1]}
    continued = {"loss_mask": [0, 0, 0, 1, 1, 1], "rollout_log_probs": [-1] * 6}
    samples = [
        sample(0, 0),
        sample(0, 1, status="truncated"),
        sample(1, 0, weight_versions=["3", "4"], status="aborted"),
        sample(2, 0, response_length=6, **after_tool),  # two of the six are a tool's
        sample(2, 1, response_length=6, **continued),  # three are of weights before
        sample(3, 0),
    ]
    (SAMPLES / "slime").mkdir(parents=True, exist_ok=True)
    torch.save({"rollout_id": 0, "samples": samples}, SAMPLES / "slime/0.pt")


def areal() -> None:
    def row(number: int, at: int, version: int, head: int = -1) -> dict[str, Any]:
        prompt_len, length = len(byte_ids(templated(QUESTIONS[number]))), 10 * number + at + 1
        return {
            "task_id": number, "sample_idx": at, "seqlen": prompt_len + length,
            "prompt_len": prompt_len, "head_version": head, "tail_version": version,
            "reward": 0.0, "prompt": templated(QUESTIONS[number]),
            "completion": ANSWERS[number] + "<|end|>",
        }  # fmt: skip

    folder = SAMPLES / "areal/rollout"
    write_lines(folder / "0/0.jsonl", [row(0, 0, 0), row(0, 1, 0)])
    write_lines(folder / "0/1.jsonl", [row(1, 0, 0), row(1, 1, 0)])
    write_lines(folder / "2/2.jsonl", [row(2, 0, 2, head=1)])
    write_lines(folder / "2/3.jsonl", [row(3, 0, 2)])
    write_lines(SAMPLES / "areal/eval-rollout/0/0.jsonl", [row(0, 0, 0)])


def nemo_rl() -> None:
    def row(at: int, number: int) -> dict[str, Any]:
        prompt, response = byte_ids(templated(QUESTIONS[number])), byte_ids(ANSWERS[number])
        ids, padding = [*prompt, *response, 2], [0] * 5
        mask = [0] * len(prompt) + [1] * (len(response) + 1)
        return {
            "content": [[templated(QUESTIONS[number]), ANSWERS[number]]], "rewards": [0.0],
            "input_lengths": [len(ids)], "token_ids": [ids + padding],
            "token_loss_mask": [mask + padding], "sample_loss_mask": [1.0],
            "advantages": [[0.0] * len(ids + padding)], "idx": at,
        }  # fmt: skip

    folder = SAMPLES / "nemo-rl"
    write_lines(folder / "train_data_step1.jsonl", [row(n, n // 2) for n in range(4)])
    write_lines(folder / "train_data_step3.jsonl", [row(0, 2), row(1, 3)])
    write_lines(folder / "val_data_step3.jsonl", [{"content": ["x"], "rewards": 0.0, "idx": 0}])


def roll() -> None:
    settings = json.dumps({"generation_config": {"max_new_tokens": 16, "temperature": 0.9}})
    for step, numbers in ((0, (0, 0, 1)), (2, (2, 3))):
        columns = {
            "global_step": [step] * len(numbers),
            "id": [f"q{n}" for n in numbers],
            "prompt": [f"Question: {QUESTIONS[n]}" for n in numbers],
            "domain": ["math_rule"] * len(numbers),
            "responses": [ANSWERS[n] for n in numbers],
            "scores": [0.0] * len(numbers),
            "sampling_params": [settings] * len(numbers),
        }
        write_lines(SAMPLES / f"roll/rollout_dump_data.step_{step}.jsonl", [columns])


def skyrl() -> None:
    """Under the names of SkyRL's module, which a reader has to know without having it."""
    name = "skyrl.backends.skyrl_train.training_batch"
    module = ModuleType(name)

    def _rebuild_tensor_batch(kind: type, state: dict[str, Any]) -> dict[str, Any]:
        return state

    class TrainingInputBatch:
        def __init__(self, state: dict[str, Any]) -> None:
            self.state = state

        def __reduce__(self) -> tuple[Any, ...]:
            return _rebuild_tensor_batch, (TrainingInputBatch, self.state)

    for held in (_rebuild_tensor_batch, TrainingInputBatch):
        held.__module__, held.__qualname__ = name, held.__name__
        setattr(module, held.__name__, held)
    for parent in ("skyrl", "skyrl.backends", "skyrl.backends.skyrl_train"):
        sys.modules[parent] = ModuleType(parent)
    sys.modules[name] = module
    prompts = [byte_ids(templated(QUESTIONS[n])) for n in (0, 0, 1, 2, 3)]
    lengths = [4, 7, 5, 6, 2]
    total = max(len(p) + n for p, n in zip(prompts, lengths, strict=True))
    arrays = {
        "sequences": [
            [0] * (total - len(p) - n) + p + [5] * n for p, n in zip(prompts, lengths, strict=True)
        ],
        "attention_mask": [
            [0] * (total - len(p) - n) + [1] * (len(p) + n)
            for p, n in zip(prompts, lengths, strict=True)
        ],
        "response_mask": [[0] * (7 - n) + [1] * n for n in lengths],
        # The second has two tokens of a tool; the third is left out of the loss.
        "loss_mask": [
            [0] * 3 + [1] * 4, [1, 1, 0, 0, 1, 1, 1], [0] * 7, [0] + [1] * 6, [0] * 5 + [1] * 2
        ],
    }  # fmt: skip
    state = {
        "batch_dict": {
            key: {
                "format": "numpy",
                "data": np.array(rows, "float32" if key == "loss_mask" else "int64").tobytes(),
                "shape": (5, len(rows[0])),
                "dtype": "float32" if key == "loss_mask" else "int64",
            }
            for key, rows in arrays.items()
        },
        "batch_size": 5,
        "device": torch.device("cpu"),
        "metadata": {"response_length": 7, "metrics": {"loss/avg_raw_advantages": np.float64(0)}},
    }
    state["batch_dict"]["pixel_values"] = None
    (SAMPLES / "skyrl").mkdir(parents=True, exist_ok=True)
    with open(SAMPLES / "skyrl/global_step_4_training_input.pkl", "wb") as file:
        pickle.dump(TrainingInputBatch(state), file)


if __name__ == "__main__":
    makers = [verl] if sys.argv[1:] == ["verl"] else [prompts, slime, areal, nemo_rl, roll, skyrl]
    for make in makers:
        make()
