"""Files larger than memory, audited cell by cell: the same verdicts, the same report."""
