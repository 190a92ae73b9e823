"""The hand-over: the canonical schedule, and what each trainer needs to follow it."""
