"""Benchmarks of obygaze beside other tools, and of how its costs grow; not installed.

`make bench` runs them all and writes docs/performance.md. `python -m benchmarks --help` shows how
to run some of them.
"""
