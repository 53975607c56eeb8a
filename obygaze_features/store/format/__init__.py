"""The format of a store: its files, its records, its limits."""
