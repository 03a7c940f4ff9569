"""Looking at what a served monitor has seen: pages of verdicts, one decision, counts."""
