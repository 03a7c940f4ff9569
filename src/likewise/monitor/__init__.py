"""The monitor: readers of inputs, the order of calls, calibration, replay, migration."""
