"""A demonstration of all steps on made-up films, offline."""
