"""Servers with an OpenAI-compatible API, asked for responses."""
