"""Processes, forks, files and logging: what has nothing to do with decisions."""
