"""A first rule for a table, proposed from its columns and tried on its rows."""
