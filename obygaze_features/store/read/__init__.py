"""Read a store, describe it, compare it, verify it."""
