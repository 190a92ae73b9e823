"""The length distribution: its mathematics (`lognormal`) and its table (`table`)."""
