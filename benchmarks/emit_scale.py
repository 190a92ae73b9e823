"""Does emit keep its memory at a million rows, and how far is it from a plain copy?

`asp emit --for trl` in a process of its own, beside a polars process that reads the same file,
sorts it into the same order and writes it. Rows are texts of random letters, so that compression
gains little. Seconds are of the processor, start included, so that other work on the machine counts
little; emit also hashes every prompt, which the copy does not. What a process holds when it starts
another counts as that one's memory (Linux), so the rows are made in a process of their own.

    python benchmarks/emit_scale.py 1000000x500 50000x20000
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from machine import heading

BATCH, GROUP = 32, 256  # prompts
PIECE = 50_000  # rows written at once

PLAIN = """
import sys
import polars as pl
source, order, output = sys.argv[1:]
place = pl.read_parquet(order)["place"]
pl.read_parquet(source).with_columns(place).sort("place").drop("place").write_parquet(output)
"""


def measured(*command: object) -> tuple[float, float]:
    """Processor seconds and largest resident memory [GiB] of a run of Python."""
    process = subprocess.Popen([sys.executable, *map(str, command)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[:3]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def write_prompts(path: Path, num_rows: int, row_bytes: int) -> None:
    """A prompt of random letters a row, never holding all of them."""
    rng = np.random.default_rng(0)
    pieces = path.with_suffix(".pieces")
    pieces.mkdir()
    step = max(1, min(PIECE, 2**28 // row_bytes))
    for first in range(0, num_rows, step):
        count = min(step, num_rows - first)
        letters = rng.integers(97, 123, (count, row_bytes - 8), dtype=np.uint8)
        texts = [row.tobytes().decode() for row in letters]
        frame = pl.DataFrame({"prompt": texts, "answer": range(first, first + count)})
        frame.write_parquet(pieces / f"{first:09}.parquet")
    pl.scan_parquet(pieces / "*.parquet").sink_parquet(path)


def write_groups(groups: Path, order: Path, num_rows: int) -> None:
    """Minibatches of 32 in groups of 256, in a random order; and the place of every row in it."""
    ids = np.random.default_rng(1).permutation(num_rows)
    parts = [ids[first : first + BATCH].tolist() for first in range(0, num_rows, BATCH)]
    count = pl.Series(range(len(parts)))
    pl.DataFrame(
        {
            "minibatch_id": count, "position": count, "group_id": count // (GROUP // BATCH),
            "prompt_ids": parts, "num_samples": [8 * len(part) for part in parts],
            "predicted_tokens": 1.0, "predicted_longest": 1.0, "predicted_seconds": 1.0,
            "predicted_utilization": 0.5,
        }
    ).write_parquet(groups)  # fmt: skip
    pl.DataFrame({"place": np.argsort(ids)}).write_parquet(order)


def main() -> None:
    """Print a line a file."""
    print(heading("Emitting at scale: memory, and time beside a plain copy"))
    print(
        "| rows | bytes a row | MiB | emit: processor s | GiB | plain copy: processor s | GiB | "
        "emit / copy |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for case in sys.argv[1:]:
        num_rows, row_bytes = map(int, case.split("x"))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            prompts, groups, order = (folder / f"{n}.parquet" for n in ("p", "g", "order"))
            maker = multiprocessing.get_context("spawn").Process(
                target=write_prompts, args=(prompts, num_rows, row_bytes)
            )
            maker.start()
            maker.join()
            write_groups(groups, order, num_rows)
            out = folder / "out"
            seconds, gib = measured(
                "-m", "asp_cli.main", "emit", groups, "--prompts", prompts, "--for", "trl",
                "-o", out, "--quiet",
            )  # fmt: skip
            plain, plain_gib = measured("-c", PLAIN, prompts, order, folder / "copy.parquet")
            answers = pl.read_parquet(out / "prompts.parquet", columns=["answer"])
            assert answers.equals(pl.read_parquet(folder / "copy.parquet", columns=["answer"]))
            print(
                f"| {num_rows:,} | {row_bytes:,} | {prompts.stat().st_size / 2**20:,.0f} "
                f"| {seconds:.1f} | {gib:.2f} | {plain:.1f} | {plain_gib:.2f} "
                f"| {seconds / plain:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
