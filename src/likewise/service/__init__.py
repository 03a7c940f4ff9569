"""The service: one history for many workers, over HTTP."""
