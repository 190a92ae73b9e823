"""How good a predictor is on prompts it has not seen: `scores.score` judges held-out ones."""
