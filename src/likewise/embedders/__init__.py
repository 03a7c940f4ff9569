"""Texts and pictures become vectors: models by name, loaded when they are needed."""
