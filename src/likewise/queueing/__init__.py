"""A bounded queue in front of a monitor, and the thread that delivers from it."""
