"""Makes a tiny model that has learned the moves of a puzzle, with prompts to train it on.

python -m rollout.trainer.tiny_model maze -o build/tiny-maze
"""

import argparse
import sys
from pathlib import Path

from rollout.trainer.tasks import make_prompts, write_prompts
from rollout.trainer.tiny_model.puzzles import PUZZLES
from stages.tables.errors import AspError
from stages.tables.io import new_directory

NUM_PROMPTS = 512
MEASURED_PROMPTS, MEASURED_SAMPLES = 64, 8


def main(arguments: list[str] | None = None) -> None:
    """Make the directory; exit with 1 and one line where that is a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m rollout.trainer.tiny_model", description=__doc__
    )
    parser.add_argument("task", choices=PUZZLES)
    parser.add_argument("--seed", type=int, default=0, help="[%(default)s]")
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    flags = parser.parse_args(arguments)
    try:
        with new_directory(flags.output, flags.force, "config.json") as folder:
            make(flags.task, flags.seed, folder)
    except AspError as error:
        sys.exit(f"tiny_model: error: {error}")


def make(task: str, seed: int, folder: Path) -> None:
    """Write model, tokenizer and `prompts.parquet`; print what the model earns on these."""
    from rollout.trainer.tiny_model.measure import measure
    from rollout.trainer.tiny_model.tokenizer import make_tokenizer
    from rollout.trainer.tiny_model.warm_start import WarmStart, new_model, warm_start

    puzzle = PUZZLES[task]
    prompts = make_prompts(task, puzzle.config, seed, NUM_PROMPTS, puzzle.prompt)
    write_prompts(prompts, puzzle.config, seed, str(folder / "prompts.parquet"), force=False)
    tokenizer = make_tokenizer((*puzzle.phrases, "<answer>", "</answer>"))
    model = new_model(tokenizer, seed)
    warm_start(model, tokenizer, puzzle, WarmStart(), seed, _tell)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    measured = prompts.head(MEASURED_PROMPTS)
    print(measure(model, tokenizer, puzzle, measured, MEASURED_SAMPLES, seed))


def _tell(words: str) -> None:
    print(words, file=sys.stderr)


if __name__ == "__main__":
    main()
