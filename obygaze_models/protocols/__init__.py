"""Experiments as data: tasks, splits, grid, metrics."""
