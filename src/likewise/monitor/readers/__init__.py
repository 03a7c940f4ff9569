"""From inputs as they come to vectors, outputs and columns."""
