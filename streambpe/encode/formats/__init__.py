"""One module for each format a model can be written to or read from."""
