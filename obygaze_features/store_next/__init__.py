"""Stores of features, format 1 (docs/store.md): made once, read by clip, changed by making anew."""
