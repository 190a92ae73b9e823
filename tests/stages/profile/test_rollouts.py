"""Joining recorded responses: a worked case, conservation, numbering, verl's form of a prompt."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.profile.from_rollouts import RolloutsConfig, profile_rollouts
from stages.profile.keys import Tokenizer, id_keys, text_keys
from stages.profile.logs.verl import VERL
from stages.profile.recorded import Recording
from stages.profile.rollouts import join
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.prompt_survey import PromptFile
from stages.tables.schemas import Profile

MakePrompts = Callable[[Sequence[Any]], PromptFile]
MakeRecording = Callable[..., Recording]


@dataclass(frozen=True)
class Words:
    """A tokenizer whose tokens are words, with a chat template like that of a real one."""

    name: str = "words"
    seen: list[str] = field(default_factory=list)  # words, with the white space after them

    def digest(self) -> str:
        return "words"

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def encode_prompt(self, prompt: Any) -> list[int]:
        words = re.findall(r"\S+\s*", rendered(prompt))
        self.seen.extend(word for word in words if word not in self.seen)
        return [self.seen.index(word) for word in words]

    def decode(self, ids: Sequence[int], has_specials: bool = False) -> str:
        return "".join(self.seen[word] for word in ids)


def rendered(prompt: Any) -> str:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    turns = "".join(f"{m['role']}\n{m['content']}\n" for m in messages)
    return f"system\nBe brief.\n{turns}assistant\n"


def profile(
    recording: Recording,
    prompts: PromptFile,
    config: RolloutsConfig | None = None,
    tokenizer: Tokenizer | None = None,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    joined = join(recording, prompts, text_keys(recording, prompts, tokenizer), "text")
    table, results = profile_rollouts(
        recording, prompts, joined, config or RolloutsConfig(), tokenizer
    )
    return conform(table, Profile, "the profile"), results


def test_a_case_by_hand(make_prompts: MakePrompts, make_recording: MakeRecording) -> None:
    """Prompts a, b, a again, c; seven rows: one of no prompt, one written twice."""
    prompts = make_prompts(["a", "b", "a", "c"])
    recording = make_recording(
        [
            {"text": "b", "sample_index": 1, "response_tokens": 30, "max_response_tokens": 50},
            {"text": "a", "sample_index": 0, "response_tokens": 50, "max_response_tokens": 50},
            {"text": "b", "sample_index": 0, "response_tokens": 64, "max_response_tokens": 50},
            {"text": "z", "sample_index": 0, "response_tokens": 10, "max_response_tokens": 50},
            {"text": "a", "sample_index": 1, "response_tokens": 60, "finish_reason": "stop"},
            {"text": "a", "sample_index": 0, "response_tokens": 50, "max_response_tokens": 50},
            {"text": "a", "sample_index": 2, "response_tokens": 20, "capped": True},
        ]
    )
    table, results = profile(recording, prompts, RolloutsConfig(max_response_tokens=90))
    columns = ["prompt_id", "sample_index", "response_tokens", "max_response_tokens"]
    assert table.select(columns).rows() == [
        (0, 0, 50, 50), (0, 1, 60, 90), (0, 2, 20, 90), (1, 0, 64, 50), (1, 1, 30, 50),
    ]  # fmt: skip
    reasons = table["finish_reason"].to_list()
    assert reasons == ["length", "stop", "length", "length", "stop"]
    assert table["prompt"].to_list() == ["a", "a", "a", "b", "b"]
    assert table["policy_version"].unique().to_list() == [0]
    assert results["num_unmatched"] == results["num_repeated"] == 1
    assert (results["num_joined"], results["num_responses"]) == (5, 5)
    assert (results["num_prompts"], results["num_prompts_given"]) == (2, 3)
    assert results["share_at_cap"] == 3 / 5


prompt_texts = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8)
rows = st.lists(
    st.fixed_dictionaries(
        {"text": st.sampled_from("abcdefgh"), "response_tokens": st.integers(0, 5)},
        optional={"sample_index": st.integers(0, 3), "finish_reason": st.just("stop")},
    ),
    min_size=1,
    max_size=40,
)


@given(prompt_texts, rows)
def test_every_response_to_a_prompt_stands_in_the_profile_once(
    make_prompts: MakePrompts,
    make_recording: MakeRecording,
    texts: list[str],
    recorded: list[dict[str, Any]],
) -> None:
    known = [row for row in recorded if row["text"] in texts]
    recording, prompts = make_recording(recorded), make_prompts(texts)
    if not known:
        with pytest.raises(AspError, match="none of its"):
            profile(recording, prompts)
        return
    table, results = profile(recording, prompts)  # validated: each (prompt, sample_index) once
    # A row that repeats an earlier one in everything is the same response, if it has an index.
    if all("sample_index" in row for row in known):
        known = [dict(pairs) for pairs in {tuple(sorted(row.items())): 0 for row in known}]
    expected = Counter((row["text"], row["response_tokens"]) for row in known)
    assert Counter(table.select("prompt", "response_tokens").iter_rows()) == expected
    for prompt_id, text in table.select("prompt_id", "prompt").iter_rows():
        assert texts.index(text) == prompt_id
    counted = len(table) + results["num_unmatched"] + results["num_repeated"]
    assert counted == results["num_recorded"] == len(recorded)


@given(prompt_texts, rows, st.integers(1, 4), st.integers(1, 4))
def test_the_limits_hold(
    make_prompts: MakePrompts,
    make_recording: MakeRecording,
    texts: list[str],
    recorded: list[dict[str, Any]],
    num_prompts: int,
    per_prompt: int,
) -> None:
    recording, prompts = (
        make_recording([*recorded, {"text": texts[0], "response_tokens": 1}]),
        make_prompts(texts),
    )
    everything, _ = profile(recording, prompts)
    config = RolloutsConfig(num_prompts=num_prompts, rollouts_per_prompt=per_prompt)
    table, _ = profile(recording, prompts, config)
    assert table["prompt"].n_unique() == min(num_prompts, everything["prompt"].n_unique())
    sizes = dict(everything.group_by("prompt").len().iter_rows())
    for prompt, size in table.group_by("prompt").len().iter_rows():
        assert size == min(per_prompt, sizes[prompt])
    assert table.join(everything, on=everything.columns, how="anti", nulls_equal=True).is_empty()


def test_responses_without_an_index_are_numbered_as_they_appear(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    recording = make_recording([{"text": t, "response_tokens": 7} for t in "abaab"])
    table, results = profile(recording, make_prompts(["a", "b"]))
    assert table.select("prompt", "sample_index").rows() == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1),
    ]  # fmt: skip
    assert results["num_repeated"] == 0  # equal lengths are no sign of one response


def test_samples_of_two_policy_versions_do_not_displace_each_other(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    recording = make_recording(
        [
            {"text": t, "sample_index": 0, "response_tokens": 7, "policy_version": version}
            for version in (0, 1)
            for t in "ab"
        ]
        + [{"text": "c", "sample_index": 5, "response_tokens": 7}]
    )
    table, results = profile(recording, make_prompts(["a", "b", "c"]))
    held = table.select("prompt", "sample_index", "policy_version").rows()
    assert held == [("a", 0, 0), ("a", 1, 1), ("b", 0, 0), ("b", 1, 1), ("c", 5, 0)]
    assert results["num_renumbered"] == 4


def test_responses_that_are_numbered_in_part_are_all_numbered_anew(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    recording = make_recording(
        [{"text": "a", "sample_index": i, "response_tokens": n} for i, n in ((7, 1), (None, 2))]
    )
    table, results = profile(recording, make_prompts(["a"]))
    assert table.select("sample_index", "response_tokens").rows() == [(0, 1), (1, 2)]
    assert results["num_renumbered"] == 1


def test_text_is_counted_with_its_end_token(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    def row(response: str, **said: Any) -> dict[str, Any]:
        return {"text": "a", "response": response} | said

    recording = make_recording(
        [
            row("one two"),  # stopped: 2 and its end
            row("one two three"),  # with its end it fills the cap of 4
            row("one two three four"),  # cut
            row("one two three four five"),  # over the cap: kept
            row("one two", finish_reason="length"),
            row("one two", capped=True),
            row("one two three four", finish_reason="stop"),
            row(""),
            row("", response_tokens=9),  # known: not counted
        ]
    )
    config = RolloutsConfig(max_response_tokens=4)
    table, _ = profile(recording, make_prompts(["a"]), config, Words())
    assert table["response_tokens"].to_list() == [3, 4, 4, 5, 2, 2, 5, 1, 9]
    assert [reason[0] for reason in table["finish_reason"]] == list("slllllssl")
    assert table["prompt_tokens"].unique().to_list() == [6]


def test_without_a_cap_it_is_told_that_all_count_as_stopped(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    recording = make_recording([{"text": "a", "response_tokens": n} for n in (1, 2)])
    _, results = profile(recording, make_prompts(["a"]))
    assert results["num_end_unsaid"] == 2
    _, results = profile(recording, make_prompts(["a"]), RolloutsConfig(max_response_tokens=2))
    assert (results["num_end_unsaid"], results["share_at_cap"]) == (0, 0.5)


def test_verl_logs_are_found_by_the_rendered_prompt(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    prompts = make_prompts(["one", [{"role": "user", "content": "two"}], " three\n", "four"])
    logged = [rendered(prompts.raw[i]).strip() for i in (0, 1, 2)]
    recorded = [{"text": text, "response_tokens": 1} for text in [*logged, "three", "five"]]
    recording = make_recording(recorded, layout=VERL)
    table, results = profile(recording, prompts, None, Words())
    assert table["prompt_id"].to_list() == [0, 1, 2, 2]
    assert results["num_unmatched"] == 1
    plain, results = profile(recording, prompts)  # no tokenizer: the bare text, and the frame
    assert plain["prompt_id"].to_list() == [0, 1, 2]  # white space tells the third's from it
    assert results["num_unmatched"] == 2


def test_an_id_of_both_files_joins(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    prompts = make_prompts(["a", "b", "a"])
    table = pl.DataFrame({"uid": [1, 2, 3]})
    recorded = [{"id": i, "text": "as the model got it", "response_tokens": 1} for i in "3129"]
    joined = join(make_recording(recorded), prompts, id_keys(table, "uid", prompts), "id")
    assert joined.frame["prompt_id"].to_list() == [0, 0, 1]
    assert joined.num_unmatched == 1


def test_equal_texts_under_two_ids_have_responses_of_their_own(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    prompts = make_prompts(["a", "a"])
    keys = id_keys(pl.DataFrame({"uid": [1, 2]}), "uid", prompts)
    recorded = [{"id": i, "sample_index": 0, "response_tokens": 5} for i in "121"]
    joined = join(make_recording(recorded), prompts, keys, "id")
    assert joined.frame.select("prompt_id", "sample_index").rows() == [(0, 0), (0, 1)]
    assert joined.num_repeated == 1  # the third row is the first again


def test_an_id_must_be_there_and_mean_one_prompt(make_prompts: MakePrompts) -> None:
    prompts = make_prompts(["a", "b", "a"])
    with pytest.raises(AspError, match=r"no column 'uid' .* which both files need"):
        id_keys(pl.DataFrame({"x": [1, 2, 3]}), "uid", prompts)
    with pytest.raises(AspError, match="1 ids to more than one prompt: 1;"):
        id_keys(pl.DataFrame({"uid": [1, 1, 2]}), "uid", prompts)


def test_nothing_that_joins_is_told_with_an_example_of_both_sides(
    make_prompts: MakePrompts, make_recording: MakeRecording
) -> None:
    recording = make_recording([{"text": "there " * 20, "response_tokens": 1}] * 3)
    with pytest.raises(AspError) as caught:
        profile(recording, make_prompts(["here", "and here"]))
    line = str(caught.value)
    assert "none of its 3 responses (1 different prompts) is of one of the 2 prompts" in line
    assert "'there there " in line
    assert "...' there, 'here' here" in line
    with pytest.raises(AspError, match="give the --tokenizer of that training"):
        profile(make_recording([{"text": "x"}], layout=VERL), make_prompts(["here"]))
