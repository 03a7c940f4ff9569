"""What becomes of records that are gone before they were read."""

GAPS = ("lost", "stop")
"""Chained as lost and shown in every later verdict; or an error, and nothing behind them is read."""
