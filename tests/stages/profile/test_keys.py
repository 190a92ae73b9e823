"""Keys of prompts in a template: the frame that a log shows, and what it must not join."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stages.profile.keys import frame_of, last_content, text_keys
from stages.profile.logs.areal import AREAL
from stages.profile.recorded import Recording
from stages.profile.rollouts import join
from stages.tables.prompt_survey import PromptFile

MakePrompts = Callable[[Sequence[Any]], PromptFile]


def test_the_frame_is_what_stands_around_most_prompts() -> None:
    logged = ["<s>user: one</s>", "<s>user: one two</s>", "<s>user: three</s> one", "else"]
    assert frame_of(logged, ["one", "one two", "three"]) == ("<s>user: ", "</s>")


def test_one_text_of_several_shows_none() -> None:
    assert frame_of(["<s>one</s>", "else"], ["one"]) == ("", "")
    assert frame_of(["<s>one</s>"], ["one"]) == ("<s>", "</s>")
    assert frame_of([], ["one"]) == frame_of(["x"], []) == ("", "")


def test_the_last_message_is_what_differs() -> None:
    assert last_content(" a ") == "a"
    assert last_content([{"role": "system", "content": "s"}, {"content": "a\n"}]) == "a"
    assert last_content([{"role": "user", "content": None}]) == last_content([]) == ""


words = st.text("abc de", min_size=1, max_size=6).filter(str.strip)


@given(
    st.lists(words.map(str.strip), min_size=2, max_size=8, unique=True),
    st.sampled_from([("<s>user\n", "</s>\n<s>assistant"), ("Solve: ", ""), ("", " =")]),
)
def test_each_templated_prompt_is_joined_to_itself(
    make_prompts: MakePrompts,
    make_recording: Callable[..., Recording],
    texts: list[str],
    frame: tuple[str, str],
) -> None:
    """Prompts may hold one another: what is joined is always the whole one."""
    before, after = frame
    rows = [{"text": f"{before}{text}{after}", "response_tokens": 1} for text in texts]
    recording, prompts = make_recording(rows, layout=AREAL), make_prompts(texts)
    joined = join(recording, prompts, text_keys(recording, prompts, None), "text")
    assert joined.num_unmatched == 0
    for text, prompt in joined.frame.select("text", "prompt").iter_rows():
        assert text == f"{before}{prompt}{after}"


def test_two_prompts_with_one_last_message_are_not_told_apart_by_the_frame(
    make_prompts: MakePrompts, make_recording: Callable[..., Recording]
) -> None:
    ask = {"role": "user", "content": "same"}
    raw = [[{"role": "system", "content": c}, ask] for c in "ab"]
    prompts = make_prompts([*raw, "one", "two"])
    rows = [{"text": f"<{c}>", "response_tokens": 1} for c in ("same", "one", "two")]
    recording = make_recording(rows, layout=AREAL)
    joined = join(recording, prompts, text_keys(recording, prompts, None), "text")
    assert joined.frame["prompt_id"].to_list() == [2, 3]
    assert (joined.num_unmatched, joined.unmatched) == (1, "<same>")
