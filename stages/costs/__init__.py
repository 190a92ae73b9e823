"""Seconds of a minibatch on an engine."""
