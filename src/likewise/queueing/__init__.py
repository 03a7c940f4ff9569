"""Commit queue: ordered, bounded, written in groups, answered after the commit."""
