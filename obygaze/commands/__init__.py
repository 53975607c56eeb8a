"""The commands of `obygaze`: a module for each group. Each command calls one function."""
