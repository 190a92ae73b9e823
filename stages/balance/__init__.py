"""Minibatches dealt into batch groups of equal predicted load, and the groups put in order."""
