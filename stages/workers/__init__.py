"""Processes beside this one, on this machine or on others."""
