"""History and index: vectors in, witnesses out."""
