"""lw.cluster: one monitor whose history is searched by shards, on one machine or many."""
