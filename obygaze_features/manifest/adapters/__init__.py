"""Read the files of data sets as manifests, one module for each data set."""
