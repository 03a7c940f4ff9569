"""Decisions wait in a bounded queue, and one thread tells a monitor of them, in their order."""
