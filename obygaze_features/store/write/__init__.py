"""Create a store, commit its blocks, seal it, cut it."""
