"""Values and tables as they come, made plain; keys, positions, times; one codec."""
