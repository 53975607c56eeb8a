"""Comparisons with other tools, and the calibration of p-values and intervals; not installed.

`make bench` prints the figures of docs/performance.md. `python -m benchmarks.calibration` is run by
itself.
"""
