"""Stores of maps of where a model looks, and sheets of them; films and audits both use them."""
