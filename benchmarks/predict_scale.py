"""Does memory grow with the number of prompts that are predicted, and what does each cost?

`asp predict` in a process of its own: Parquet and JSON lines, embedded predictor. The prompts are
those of sample_data, made different by a number. Training is not measured. Seconds are of the
processor, start included, so that other work on the machine counts little.

    python benchmarks/predict_scale.py 10000 100000 1000000
"""

import json
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import polars as pl
from machine import heading

SAMPLE = Path(__file__).parent.parent / "sample_data"
PIECE = 50_000  # prompts written at once


def measured(*arguments: object) -> tuple[float, float]:
    """Processor seconds and largest resident memory [GiB] of a run of `asp`."""
    command = [sys.executable, "-m", "asp_cli.main", *map(str, arguments), "--quiet"]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"asp {arguments[0]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def write_prompts(folder: Path, num_prompts: int) -> tuple[Path, Path]:
    """The same prompts as Parquet and as JSON lines, without holding them all."""
    known = pl.read_parquet(SAMPLE / "prompts.parquet")["prompt"].to_list()
    texts = (f"{known[i % len(known)]} ({i})" for i in range(num_prompts))
    lines = folder / "prompts.jsonl"
    with open(lines, "w") as file:
        while piece := list(islice(texts, PIECE)):
            file.writelines(json.dumps({"prompt": text}) + "\n" for text in piece)
    table = lines.with_suffix(".parquet")
    pl.scan_ndjson(lines).sink_parquet(table)
    return table, lines


def main() -> None:
    """Print a line a file."""
    print(heading("Predicting at scale: time a prompt and memory"))
    print(
        "| prompts | file | MiB | processor microseconds a prompt | largest resident memory, GiB |"
    )
    print("|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile, predictor = folder / "profile.parquet", folder / "predictor"
        known = (SAMPLE / "profile_prompts.parquet", "--rollouts", SAMPLE / "rollouts.parquet")
        measured("profile", *known, "-o", profile)
        measured("train-predictor", profile, "-o", predictor)
        for num_prompts in map(int, sys.argv[1:]):
            for file in write_prompts(folder, num_prompts):
                out = ("-o", folder / "lengths.parquet", "--force")
                seconds, gib = measured("predict", file, "--predictor", predictor, *out)
                print(
                    f"| {num_prompts:,} | {file.suffix[1:]} | {file.stat().st_size / 2**20:,.1f} "
                    f"| {seconds / num_prompts * 1e6:,.0f} | {gib:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
