"""How long are the target model's responses? Asked of the model, or of recorded rollouts."""
