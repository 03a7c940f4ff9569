"""Explain verdicts to people: pairs side by side, and groups compared."""
