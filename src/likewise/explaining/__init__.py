"""Verdicts for people: pairs side by side, groups."""
