"""A language model that is small enough to learn on a CPU."""
