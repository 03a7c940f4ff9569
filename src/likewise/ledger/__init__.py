"""The ledger: a folder that keeps decisions and their verdicts, and shows if it was altered."""
