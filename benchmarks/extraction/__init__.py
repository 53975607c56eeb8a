"""The extraction pipeline beside its own stages, and its engines."""
