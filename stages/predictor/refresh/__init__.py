"""Lengths refreshed by what training observed: `stage.run` reads, blends and writes."""
