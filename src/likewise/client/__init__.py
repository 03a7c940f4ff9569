"""A monitor behind a service, and what watches a model there."""
