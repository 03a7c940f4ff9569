"""What is answered: frozen verdicts, their witnesses, and their one JSON body."""
