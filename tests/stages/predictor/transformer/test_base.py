from pathlib import Path

import pytest

from stages.predictor.transformer.base import load_base
from stages.tables.errors import AspError


def test_causal_or_not_is_told_by_the_model(causal_path: Path, encoder_path: Path) -> None:
    assert load_base(str(causal_path)).is_causal
    assert not load_base(str(encoder_path)).is_causal


def test_another_model_has_another_digest(causal_path: Path, encoder_path: Path) -> None:
    digest = load_base(str(causal_path)).digest()
    assert digest == load_base(str(causal_path)).digest()
    assert digest != load_base(str(encoder_path)).digest()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: None, "cannot be loaded as a tokenizer: .*; give another"),
        (lambda folder: (folder / "config.json").write_text("{}"), "cannot be loaded as"),
    ],
)
def test_a_directory_that_holds_no_model_is_one_line(
    tmp_path: Path, spoil: object, message: str
) -> None:
    spoil(tmp_path)  # type: ignore[operator]
    with pytest.raises(AspError, match=message):
        load_base(str(tmp_path))


def test_a_directory_that_is_not_there_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(AspError, match="no such directory; give one that holds a model"):
        load_base("./absent/model")
