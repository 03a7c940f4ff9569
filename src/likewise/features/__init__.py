"""Columns become vectors: how a rule's features are read, measured and remembered."""
