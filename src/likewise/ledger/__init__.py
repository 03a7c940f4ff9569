"""Store decisions and their verdicts in a folder that shows if it was altered: the ledger."""
