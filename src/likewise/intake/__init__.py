"""What stands between whoever sends decisions and a monitor: for commands, services and streams."""
