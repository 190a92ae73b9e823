"""Seconds of a minibatch on an engine: the model, its files, its fit to timings, its roofline."""
