"""Turns values and tables of any library into plain ones; keys, positions, times; one codec."""
