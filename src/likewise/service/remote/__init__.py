"""What `lw.connect` asks of a served monitor: one module for each kind of question."""
