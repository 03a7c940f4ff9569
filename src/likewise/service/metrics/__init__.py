"""Metrics of the service, for Prometheus and for OTLP."""
