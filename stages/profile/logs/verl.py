"""`trainer.rollout_data_dir=DIR` makes verl write `DIR/STEP.jsonl`.

Fields `input`, `output`, `gts`, `score`, `step`, and `uid` or what the reward function adds. Both
texts are decoded without special tokens, so there is no length, and of an episode with tools the
output holds what the tools said too: lengths counted from it come out too long. No finish reason.
`policy_version` is the step less 1.

Read in verl/trainer/ppo/ray_trainer.py and verl/trainer/ppo/v1/trainer_base.py, `_log_rollout_data`
(0.9.1).
"""

from stages.profile.logs.layout import FIELDS, Layout

VERL = Layout(
    name="verl",
    about=__doc__,
    columns=FIELDS | {"prompt": ("input",), "response": ("output",), "step": ("step",)},
    signs=frozenset({"input", "output"}),
    never=frozenset({"prompt"}),
    is_templated=True,
    has_lengths=False,
    sample="made by the trainer's code",
)
