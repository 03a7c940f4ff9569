"""Alerts: the conditions, an outbox on disk, and the delivery to receivers."""
