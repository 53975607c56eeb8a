"""Metrics with intervals over films, tests that compare models, and counts of leaked clips."""
