"""The pages that `likewise serve` shows at /: look at contradictions, decide, answer."""
