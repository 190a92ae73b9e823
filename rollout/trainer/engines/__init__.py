"""Engines that a Generation Unit can hold."""
