"""`lw.watch` and `WatchRequests` watch a model where it is called."""
