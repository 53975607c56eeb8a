"""The film page: watch films, look at clips and scores, and mark segments, in a browser."""
