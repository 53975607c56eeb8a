"""A tour of the whole tool on films that are made up, offline."""
