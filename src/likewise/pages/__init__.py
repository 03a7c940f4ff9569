"""The pages of `likewise serve`: people look at contradictions here, and review them."""
