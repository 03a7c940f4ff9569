"""History and index together: vectors and outputs in, witnesses out."""
