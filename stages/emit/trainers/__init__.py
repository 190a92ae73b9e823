"""The trainers that `asp emit --for` knows, a file each, and the table of what each keeps."""

from stages.emit.trainer import Trainer
from stages.emit.trainers.areal import AREAL
from stages.emit.trainers.mindspeed_rl import MINDSPEED_RL
from stages.emit.trainers.nemo_rl import NEMO_RL
from stages.emit.trainers.openrlhf import OPENRLHF
from stages.emit.trainers.prime_rl import PRIME_RL
from stages.emit.trainers.roll import ROLL
from stages.emit.trainers.skyrl import SKYRL
from stages.emit.trainers.slime import SLIME
from stages.emit.trainers.trl import TRL, TRL_ASYNC
from stages.emit.trainers.verl import VERL, VERL_FULLY_ASYNC, VERL_ONE_STEP_OFF

TRAINERS: dict[str, Trainer] = {
    trainer.name: trainer
    for trainer in (
        VERL,
        VERL_ONE_STEP_OFF,
        VERL_FULLY_ASYNC,
        TRL,
        TRL_ASYNC,
        SLIME,
        NEMO_RL,
        AREAL,
        MINDSPEED_RL,
        OPENRLHF,
        SKYRL,
        ROLL,
        PRIME_RL,
    )
}
