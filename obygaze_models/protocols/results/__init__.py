"""The records of results.json: a module for each analysis, and `kinds` to read them all."""
