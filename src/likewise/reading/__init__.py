"""From what came to vectors, outputs and columns."""
