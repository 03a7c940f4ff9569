"""What is answered, and the errors: frozen values."""
