"""A monitor behind a service: `lw.connect`, and the same for event loops."""
