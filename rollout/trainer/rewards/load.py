"""Which reward does a name mean?

A name among `NAMED`, or `module:function`, looked for in the user's folder and where Python looks.
"""

import importlib
import sys
from collections.abc import Mapping
from typing import Any, cast

from rollout.trainer.rewards.reward import Reward
from stages.tables.errors import AspError, errors_of

NAMED = {
    "gsm8k": "rollout.trainer.rewards.gsm8k:gsm8k",
    "reasoning-gym": "rollout.trainer.rewards.reasoning_gym:reasoning_gym",
}
"""Rewards that come with the tool, as `module:function`."""


def load_reward(name: str, folder: str) -> Reward:
    """Import a reward.

    Args:
        name: As in `NAMED`, or `module:function`.
        folder: Where to look for the module first.

    Raises:
        AspError: There is none of this name, or it can't be called.
    """
    known = NAMED.get(name, name)
    module, colon, function = known.partition(":")
    if not colon:
        raise AspError(
            f"--reward {name}: is no reward of this tool ({', '.join(NAMED)}); give "
            "module:function to name one of your own"
        )
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # importing runs the user's code
        raise AspError(
            f"--reward {name}: cannot be imported: {type(error).__name__}: {error}"
        ) from None
    if not callable(found):
        raise AspError(f"--reward {name}: is a {type(found).__name__}, not a function")
    return cast(Reward, found)


def check_rows(name: str, folder: str, row_p: Mapping[int, Mapping[str, Any]]) -> None:
    """See, before anything is generated, that a reward of this tool can score these prompts.

    One of the user's own is not asked: it need not know what to do without a response.

    Args:
        name: As in `load_reward`.
        folder: Likewise.
        row_p: Of the prompt file, by prompt_id.

    Raises:
        AspError: It cannot.
    """
    if name in NAMED:
        reward = load_reward(name, folder)
        for prompt, row in row_p.items():
            with errors_of(f"prompt_id {prompt}"):
                reward([], row)
