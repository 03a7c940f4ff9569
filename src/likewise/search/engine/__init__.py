"""Judge decisions with a history and an index: vectors and outputs in, witnesses out."""
