"""Runs a protocol: joins features to clips, trains every fold of every cell, evaluates, writes."""
