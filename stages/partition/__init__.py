"""Prompts sorted by predicted length, cut into minibatches."""
