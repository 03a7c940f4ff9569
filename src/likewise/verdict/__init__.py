"""The answers: frozen verdicts, their witnesses, and their one JSON body."""
