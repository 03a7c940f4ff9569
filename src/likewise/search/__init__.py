"""Find near past decisions: compiled kernels, stored history, indexes, and the engine over them."""
