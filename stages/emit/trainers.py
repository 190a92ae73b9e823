"""The trainers that `asp emit --for` knows."""

from stages.emit.trainer import Trainer
from stages.emit.trl import TRL
from stages.emit.verl import VERL

TRAINERS: dict[str, Trainer] = {trainer.name: trainer for trainer in (VERL, TRL)}
