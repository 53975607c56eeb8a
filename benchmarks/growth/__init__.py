"""How costs grow with the number of clips, dimensions, folds, concepts and models."""
