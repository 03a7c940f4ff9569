"""Routes of the service, one module for each group of operations."""
