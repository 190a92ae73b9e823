"""A warning is told apart by its words, not by the values in it."""

from stages.tables.errors import Once, each_warning_once, log


def test_a_warning_is_given_with_its_first_values(said: list[str]) -> None:
    once = Once()
    for number in (3, 4):
        once.warn("%d responses were cut", number)
        once.warn("the server answers as %r", "m")
    Once().warn("%d responses were cut", 5)
    assert said == ["3 responses were cut", "the server answers as 'm'", "5 responses were cut"]


def test_in_a_block_whoever_warns_warns_once(said: list[str]) -> None:
    for _ in range(2):
        with each_warning_once():
            for number in (3, 4):
                log.info("batch %d", number)
                log.warning("%d prompts are long", number)
    assert said == ["batch 3", "3 prompts are long", "batch 4"] * 2
