"""Abilities beside the two components.

An extension is a folder. Its commands are in the table of obygaze/cli.py; it imports
obygaze_features and obygaze_models, and no other extension.
"""
