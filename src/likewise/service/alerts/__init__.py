"""Telling someone: what is worth an alert, remembered until it was told."""
