"""Forks, locks, files, load and logging: code that knows nothing of decisions."""
