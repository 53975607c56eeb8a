"""Reading and writing stores, beside other file formats."""
