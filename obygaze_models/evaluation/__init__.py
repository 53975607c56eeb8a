"""Metrics, intervals, tests, and what leaked."""
