"""The audit pipeline: a file in memory, files larger than memory cell by cell, and a ledger."""
