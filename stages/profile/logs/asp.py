"""`asp train` writes `RUN_DIR/rollouts.parquet` once all steps are trained.

A profile with the column `step`, from 0, of the training step that took the response.
`policy_version` is that of its first token.
"""

from stages.profile.logs.layout import FIELDS, Layout

ASP = Layout(
    name="asp",
    about=__doc__,
    columns=FIELDS | {"step": ("step",)},
    files=r"rollouts\.parquet",
    signs=frozenset({"step", "prompt_hash", "response_tokens"}),
    sample="made by the trainer's code",
)
