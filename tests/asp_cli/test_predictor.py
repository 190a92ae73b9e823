"""`asp train-predictor` and `asp predict` as a user meets them."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stages.tables.prompts import prompt_hash

Asp = Callable[..., object]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with profile.parquet, prompts.parquet and predictor/."""
    from asp_cli.main import main

    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 110)
    templates = ("Explain {} slowly", "Give {} in a word, and only that")
    texts = [templates[kind].format(i) for i, kind in enumerate(kinds)]
    pl.DataFrame(
        {
            "prompt_id": range(110),
            "prompt_hash": map(prompt_hash, texts),
            "prompt": texts,
            "model": "m",
            "sample_index": 0,
            "response_tokens": np.exp(rng.normal(5.0 - 3 * kinds, 0.4)).astype(int) + 1,
            "finish_reason": "stop",
            "max_response_tokens": 2048,
        }
    ).write_parquet(folder / "profile.parquet")
    pl.DataFrame({"prompt": [*texts[:5], texts[0], "☃"]}).write_parquet(folder / "prompts.parquet")
    profile, predictor = str(folder / "profile.parquet"), str(folder / "predictor")
    assert main(["train-predictor", profile, "-o", predictor]) == 0
    return folder


def test_training_prints_scores_beside_prompt_length(asp: Asp, made: Path, tmp_path: Path) -> None:
    done = asp("train-predictor", made / "profile.parquet", "-o", tmp_path / "p")
    assert done.code == 0
    assert done.stdout == b""
    for words in (
        "held out: 110 prompts", "Kendall tau-b", "recall, longest 20%", "80% interval covers",
        "no prompt has two samples", "ceiling: not measurable", "64 prompts with 8 responses",
    ):  # fmt: skip
        assert words in done.stderr
    assert "MAE" not in done.stderr
    scores = json.loads((tmp_path / "p" / "predictor.json").read_text())["scores"]
    assert f"{scores['predictor']['mean']['tau']:.3f}" in done.stderr


def test_every_score_is_printed_when_asked_and_by_inspect(
    asp: Asp, made: Path, tmp_path: Path
) -> None:
    done = asp("train-predictor", made / "profile.parquet", "--evaluate", "-o", tmp_path / "p")
    told = asp("inspect", tmp_path / "p")
    assert done.code == told.code == 0
    for words in ("MAE, tokens", "Spearman", "concordance", "near: mean of the 10 most similar"):
        assert words in done.stderr and words in told.stdout.decode()
    for words in ("embedded", "110 prompts, 110 responses of m", "trusted", "valid       yes"):
        assert words in told.stdout.decode()
    (tmp_path / "p" / "vocabulary.json").write_text("{}")
    damaged = asp("inspect", tmp_path / "p")
    assert damaged.code == 1 and b"no: damaged or missing: vocabulary.json" in damaged.stdout


def test_a_predictor_of_few_prompts_gives_one_wide_distribution_unless_trusted(
    asp: Asp, made: Path, tmp_path: Path
) -> None:
    few = pl.read_parquet(made / "profile.parquet").head(40)
    few = few.with_columns(domain=pl.col("prompt").str.split(" ").list.first())
    few.write_parquet(tmp_path / "few.parquet")
    done = asp(
        "train-predictor", tmp_path / "few.parquet", "--leave-domain-out", "-o", tmp_path / "p"
    )
    assert done.code == 0
    assert "trained on 40 prompts" in done.stderr and "--trust-predictor" in done.stderr
    assert "left-out domain" in done.stderr
    predict = ("predict", made / "prompts.parquet", "--predictor", tmp_path / "p", "-o")
    wide = asp(*predict, tmp_path / "wide.parquet")
    assert wide.code == 0 and "give --trust-predictor to use it all the same" in wide.stderr
    lengths = pl.read_parquet(tmp_path / "wide.parquet")
    assert lengths["mu"].n_unique() == 1 and lengths["sigma"].min() > 0.8
    trusted = asp(*predict, tmp_path / "own.parquet", "--trust-predictor")
    assert "it is used all the same" in trusted.stderr
    assert pl.read_parquet(tmp_path / "own.parquet")["mu"].n_unique() > 1


def test_prompts_unlike_the_profiles_are_one_warning(asp: Asp, made: Path, tmp_path: Path) -> None:
    pl.DataFrame({"prompt": ["Write a sonnet on rain", "Name every sea"]}).write_parquet(
        tmp_path / "other.parquet"
    )
    done = asp(
        "predict", tmp_path / "other.parquet", "--predictor", made / "predictor", "-q",
        "-o", tmp_path / "l.parquet",
    )  # fmt: skip
    assert done.code == 0
    assert "100% of the prompts are unlike those of the profile" in done.stderr


def test_predict_writes_a_row_a_prompt(asp: Asp, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "lengths.parquet"
    done = asp("predict", made / "prompts.parquet", "--predictor", made / "predictor", "-o", out)
    assert done.code == 0
    lengths, prompts = pl.read_parquet(out), pl.read_parquet(made / "prompts.parquet")
    assert lengths["prompt_id"].to_list() == list(range(7))
    assert lengths["prompt_hash"].to_list() == list(map(prompt_hash, prompts["prompt"]))
    assert lengths["mu"][0] == lengths["mu"][5]  # the repeated prompt
    assert set(lengths["cap"]) == {2048}
    assert set(lengths["samples_per_prompt"]) == {1}
    chain = json.loads(pl.read_parquet_metadata(out)["asp"])
    assert [item["role"] for item in chain["inputs"]] == ["prompts", "predictor"]
    assert chain["inputs"][1]["asp"]["stage"] == "train-predictor"


def test_pipes_give_the_same_bytes_as_files(
    asp: Asp, asp_process: Asp, made: Path, tmp_path: Path
) -> None:
    rest = ("--predictor", made / "predictor", "--samples-per-prompt", 4)
    out = tmp_path / "lengths.parquet"
    assert asp("predict", made / "prompts.parquet", *rest, "-o", out).code == 0
    prompts = (made / "prompts.parquet").read_bytes()
    piped = asp_process("predict", "-", *rest, "-o", "-", stdin=prompts)
    assert piped.code == 0
    assert piped.stdout == out.read_bytes()


def test_messages_are_known_by_canonical_text(asp: Asp, made: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    message = [{"role": "user", "content": "Explain 3 slowly"}]
    prompts.write_text(json.dumps({"question": message}) + "\n")
    out = tmp_path / "lengths.parquet"
    done = asp(
        "predict", prompts, "--prompt-column", "question",
        "--predictor", made / "predictor", "-o", out,
    )  # fmt: skip
    assert done.code == 0
    assert pl.read_parquet(out)["prompt_hash"].item() == prompt_hash("user: Explain 3 slowly")


def test_training_unlike_the_profile_is_one_warning(asp: Asp, made: Path, tmp_path: Path) -> None:
    done = asp(
        "predict", made / "prompts.parquet", "--predictor", made / "predictor", "--quiet",
        "--max-response-tokens", 64, "--samples-per-prompt", 8, "-o", tmp_path / "l.parquet",
    )  # fmt: skip
    assert done.code == 0
    (line,) = (line for line in done.stderr.splitlines() if "otherwise" in line)
    assert "cap 2048 there, 64 here" in line
    assert "at most 1 samples a prompt there, 8 here" in line
    assert pl.read_parquet(tmp_path / "l.parquet")["expected_longest"].max() <= 64


def mixed_models(folder: Path) -> None:
    profile = pl.read_parquet(folder / "profile.parquet")
    both = pl.concat([profile, profile.with_columns(model=pl.lit("other"))])
    both.write_parquet(folder / "profile.parquet")


def corrupt(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(b"PAR1 cut short")


TRAIN = ("train-predictor", "profile.parquet", "-o", "out")
PREDICT = ("predict", "prompts.parquet", "--predictor", "predictor", "-o", "out")


@pytest.mark.parametrize(
    ("arguments", "spoil", "code", "message"),
    [
        ((*TRAIN[:-1], "-"), None, 2, "a directory, which `-` cannot stand for"),
        ((*TRAIN, "--folds", "1"), None, 2, "--folds"),
        ((*TRAIN, "--backend", "oracle"), None, 2, "--backend"),
        ((*TRAIN, "--leave-domain-out"), None, 1, "column 'domain' names 0 kinds of task"),
        ((*TRAIN, "--leave-domain-out", "--backend", "transformer"), None, 2, "needs --backend"),
        (("inspect", "."), None, 1, "not a predictor directory"),
        ((*TRAIN, "--base-model", "x"), None, 2, "--base-model needs --backend transformer"),
        ((*PREDICT, "--base-model", "x"), None, 1, "is an embedded predictor, which has none"),
        ((*TRAIN, "--profile-model", "x"), None, 1, "none of them 'x' (--profile-model)"),
        (TRAIN, mixed_models, 1, "holds 2 values (m, other)"),
        (TRAIN, corrupt("profile.parquet"), 1, "not a Parquet file"),
        (("train-predictor", "prompts.parquet", "-o", "out"), None, 1, "not a profile table"),
        (("train-predictor", "absent", "-o", "out"), None, 1, "absent: cannot be read"),
        ((*TRAIN[:-1], "predictor"), None, 1, "exists already; give --force"),
        ((*TRAIN[:-1], "absent/out"), None, 1, "does not exist"),
        (("predict", "prompts.parquet", "--predictor", "-", "-o", "out"), None, 2, "directory"),
        ((*PREDICT, "--samples-per-prompt", "0"), None, 2, "--samples-per-prompt"),
        ((*PREDICT, "--max-response-tokens", "0"), None, 2, "--max-response-tokens"),
        (("predict", "prompts.parquet", "-o", "out"), None, 2, "--predictor"),
        ((*PREDICT, "--prompt-column", "text"), None, 1, "no column 'text'"),
        (("predict", "profile.parquet", "--predictor", "prompts.parquet", "-o", "out"), None, 1,
         "is a file"),
        (("predict", "absent", *PREDICT[2:]), None, 1, "absent: cannot be read"),
        (PREDICT, lambda d: shutil.rmtree(d / "predictor"), 1, "does not exist"),
        (PREDICT, lambda d: (d / "predictor" / "predictor.json").write_text("{}"), 1,
         "not a predictor of this tool"),
        (PREDICT, corrupt("predictor/arrays.safetensors"), 1, "damaged"),
        ((*PREDICT[:-1], "prompts.parquet"), None, 1, "exists already; give --force"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_leave_nothing(
    asp: Asp,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    spoil: Callable[[Path], object] | None,
    code: int,
    message: str,
) -> None:
    folder = tmp_path / "work"
    shutil.copytree(made, folder)
    if spoil:
        spoil(folder)
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    done = asp(*arguments)
    assert done.code == code
    assert message in done.only_line
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("command", [[], ["predict"], ["train-predictor"]])
def test_help_waits_for_nothing_heavy(command: list[str]) -> None:
    script = (
        "import sys; from asp_cli.main import main; main(sys.argv[1:]); "
        "print(sorted({'torch', 'transformers', 'sklearn', 'scipy', 'ortools', 'ray'} "
        "& set(sys.modules)), file=sys.stderr)"
    )
    call = [sys.executable, "-c", script, *command, "--help"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_predicting_needs_no_sklearn(made: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from asp_cli.main import main; code = main(sys.argv[1:]); "
        "sys.exit(code or 'sklearn' in sys.modules or 'torch' in sys.modules)"
    )
    call = [
        sys.executable, "-c", script, "predict", made / "prompts.parquet",
        "--predictor", made / "predictor", "-o", tmp_path / "l.parquet",
    ]  # fmt: skip
    assert subprocess.run(call, capture_output=True, check=False).returncode == 0


def test_domains_reach_profile_and_lengths(asp: Asp, tmp_path: Path) -> None:
    """From a column of the prompts, for which rollouts need none; wilder domains get wider."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 160)
    texts = [
        ("Explain {} slowly", "Give {} in a word, please")[i % 2].format(i) for i in range(160)
    ]
    location = 5.0 - 2 * (np.arange(160) % 2)
    tokens = np.exp(rng.normal(location, np.where(kinds, 0.8, 0.2))).astype(int) + 1
    prompts, rollouts = tmp_path / "prompts.parquet", tmp_path / "rollouts.parquet"
    kind = np.where(kinds, "wild", "tame")
    pl.DataFrame({"prompt": texts, "kind": kind}).write_parquet(prompts)
    pl.DataFrame({"prompt": texts, "response_tokens": tokens}).write_parquet(rollouts)
    profile, predictor, lengths = (tmp_path / name for name in ("profile", "predictor", "lengths"))
    by = ("--domain-column", "kind")
    assert asp("profile", prompts, "--rollouts", rollouts, *by, "-o", profile).code == 0
    assert pl.read_parquet(profile)["domain"].to_list() == kind.tolist()
    assert asp("train-predictor", profile, "-o", predictor).code == 0
    assert asp("predict", prompts, "--predictor", predictor, *by, "-o", lengths).code == 0
    made = pl.read_parquet(lengths)
    assert made["domain"].to_list() == kind.tolist()
    wild, tame = (made.filter(pl.col("domain") == d)["sigma"].mean() for d in ("wild", "tame"))
    assert wild > 1.3 * tame
    missing = asp("predict", prompts, "--predictor", predictor, "--domain-column", "x", "-o", "y")
    assert missing.code == 1 and "(--domain-column); it has prompt, kind" in missing.stderr
