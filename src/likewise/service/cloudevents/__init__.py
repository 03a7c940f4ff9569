"""Pairs CloudEvents of KServe's logger: a request and a response make decisions."""
