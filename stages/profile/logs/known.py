"""Which layouts of logs are known, and which of them is a file of?"""

from collections.abc import Sequence

from stages.profile.logs.areal import AREAL
from stages.profile.logs.asp import ASP
from stages.profile.logs.layout import Layout
from stages.profile.logs.nemo_rl import NEMO_RL
from stages.profile.logs.plain import PLAIN
from stages.profile.logs.roll import ROLL
from stages.profile.logs.skyrl import SKYRL
from stages.profile.logs.slime import SLIME
from stages.profile.logs.trl import TRL
from stages.profile.logs.verl import VERL

LAYOUTS: dict[str, Layout] = {
    layout.name: layout for layout in (PLAIN, VERL, SLIME, AREAL, NEMO_RL, TRL, ROLL, SKYRL, ASP)
}


def detect_layout(columns: Sequence[str]) -> Layout:
    """Tell the layout from the names of the columns; plain where no other fits."""
    held = frozenset(columns)
    return next((layout for layout in LAYOUTS.values() if layout.shows_in(held)), PLAIN)
