"""Verdicts become findings, and findings a page that someone can act on."""
