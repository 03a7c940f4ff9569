"""What becomes of records that are gone before they were read."""

GAPS = ("lost", "stop")
"""Chained as lost and told by every later verdict; or an error, and nothing behind it is read."""
