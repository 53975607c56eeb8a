"""One module for each data set: its own files in, a manifest out."""
