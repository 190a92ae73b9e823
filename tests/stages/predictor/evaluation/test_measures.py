import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.predictor.evaluation.measures import (
    NO_MEASURES,
    Forecast,
    Label,
    concordance,
    measure,
    recall,
    tau,
)

OBSERVED = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
PREDICTED = np.array([1.0, 3.0, 2.0, 5.0, 4.0])  # two of ten pairs the wrong way round
WHOLE = np.zeros(5, dtype=bool)


def test_measures_by_hand() -> None:
    label = Label(OBSERVED, np.log(OBSERVED), WHOLE)
    found = measure(Forecast(PREDICTED, OBSERVED + 10.0, np.log(OBSERVED)), label)
    assert found.tau == pytest.approx((8 - 2) / 10)
    assert found.spearman == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert found.recall_20 == 0.0  # the longest is placed second
    assert found.concordance == pytest.approx(0.8)
    assert found.log_r2 == pytest.approx(1.0)
    assert found.mae == pytest.approx(10.0)
    assert recall(OBSERVED, OBSERVED, 0.2) == 1.0


def test_a_constant_explains_no_variance() -> None:
    label = Label(OBSERVED, np.log(OBSERVED), WHOLE)
    found = measure(Forecast(None, None, np.full(5, np.log(OBSERVED).mean())), label)
    assert found == NO_MEASURES._replace(log_r2=0.0)


def test_tau_b_allows_for_ties() -> None:
    assert tau(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / 6**0.5)


def test_an_order_of_ties_has_no_score() -> None:
    flat, rising = np.ones(5), np.arange(5.0)
    for order_p, tokens_p in ((flat, rising), (rising, flat), (rising[:1], rising[:1])):
        label = Label(tokens_p, tokens_p, np.zeros(len(tokens_p), dtype=bool))
        assert measure(Forecast(order_p), label) == NO_MEASURES
        assert tau(order_p, tokens_p) is None and recall(order_p, tokens_p, 0.2) is None


def test_a_cut_label_compares_with_shorter_whole_ones_alone() -> None:
    tokens_p = np.array([10.0, 20.0, 20.0, 30.0])
    is_cut_p = np.array([False, True, False, False])
    # Pairs: 10 with each of three, whole 20 with cut 20 and with 30; cut 20 and 30 do not compare.
    assert concordance(np.array([1.0, 4.0, 2.0, 3.0]), tokens_p, is_cut_p) == 1.0
    assert concordance(np.array([4.0, 1.0, 2.0, 3.0]), tokens_p, is_cut_p) == pytest.approx(1 / 5)
    assert concordance(np.array([1.0, 2.0]), np.array([5.0, 9.0]), np.array([True, True])) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 6), st.booleans()), min_size=1, max_size=30
    )
)
def test_concordance_is_that_of_all_pairs(rows: list[tuple[int, int, bool]]) -> None:
    order_p, tokens_p, is_cut_p = (np.array(column) for column in zip(*rows, strict=True))
    pairs, good = 0, 0.0
    for i, (order, tokens, is_cut) in enumerate(rows):
        for j, (other_order, other_tokens, is_other_cut) in enumerate(rows):
            is_longer = other_tokens > tokens or (other_tokens == tokens and is_other_cut)
            if i != j and not is_cut and is_longer:
                pairs += 1
                good += 1.0 if other_order > order else 0.5 if other_order == order else 0.0
    found = concordance(order_p.astype(float), tokens_p.astype(float), is_cut_p)
    assert found == (pytest.approx(good / pairs) if pairs else None)
