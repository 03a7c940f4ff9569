"""What is measured: one function for each benchmark, with its bars. `catalogue` lists them.

A function named `measure_…` runs in a process of its own, which imports its module only.
"""
