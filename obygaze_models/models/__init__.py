"""Estimators: probes, concept vectors, concept bottlenecks, baselines."""
