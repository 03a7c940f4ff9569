"""`lw.cluster` opens a monitor whose history is searched by shards, on one machine or many."""
