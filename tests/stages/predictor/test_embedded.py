import numpy as np
import pytest

from stages.predictor import embedded
from stages.predictor.backend import Observations

WORDS = np.array(["river", "stone", "seven", "lamp", "green", "under", "seldom", "copper"])


def test_a_domain_tells_of_lengths_where_it_is_known() -> None:
    rng = np.random.default_rng(0)
    texts = [f"{' '.join(rng.choice(WORDS, 6))} {i}" for i in range(120)]
    is_long = rng.random(120) < 0.5  # not to be seen in the text
    log_tokens = np.where(is_long, 6.0, 4.0) + 0.1 * rng.standard_normal(120)
    domains = tuple("proof" if long else "sum" for long in is_long)
    observations = Observations(
        texts, np.arange(120), log_tokens, np.zeros(120, dtype=bool), domains
    )
    predictor, held_out = embedded.fit(observations, 2, seed=0)
    assert held_out is not None
    assert held_out.prediction.mu_p == pytest.approx(log_tokens, abs=0.6)
    sum_, proof, unknown, new = predictor.predict(
        ["green lamp under seven"] * 4, ["sum", "proof", None, "poem"]
    ).mu_p
    assert sum_ == pytest.approx(4.0, abs=0.3)
    assert proof == pytest.approx(6.0, abs=0.3)
    assert sum_ + 0.3 < unknown == new < proof - 0.3
