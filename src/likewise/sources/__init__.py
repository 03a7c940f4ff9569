"""Files of decisions, read in chunks: each with the line, or row, that everything came from."""
