"""Clips, labels, concepts and splits as data: the one table everything else is keyed by."""
