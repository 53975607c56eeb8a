"""Where the files of a store are: a folder, a zip, an object store, the hub."""
