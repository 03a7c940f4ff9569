"""Decisions from where they flow already: Redis Streams, NATS JetStream, Kafka."""
