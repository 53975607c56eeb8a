"""Saved models: safetensors, JSON and a card; list, load, predict."""
