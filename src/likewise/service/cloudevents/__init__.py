"""CloudEvents as KServe's logger sends them: a request and a response make decisions."""
