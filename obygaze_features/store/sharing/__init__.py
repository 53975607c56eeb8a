"""Pull, push and pack stores, whole or in part."""
