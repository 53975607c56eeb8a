"""A run in five steps: clips and tasks, what is held out, features, fits, results."""
