"""What the service says about itself: numbers, for Prometheus and for OTLP."""
