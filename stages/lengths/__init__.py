"""The length distribution: its shape, its mathematics (`distribution`) and its table."""
