"""Rewards by name."""
