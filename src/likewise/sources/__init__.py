"""Decisions in: files, pipes, and brokers, read from known positions; and where answers go."""
