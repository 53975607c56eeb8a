"""Abilities beside the two components; each can be taken out without touching anything else.

An extension is a folder. It enters the program by the entry points of pyproject.toml, as a package
of a stranger does, imports obygaze_features and obygaze_models, and no other extension.
"""
