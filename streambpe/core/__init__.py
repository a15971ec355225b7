"""The compiled loops (C99, no Python headers) and the one module that calls them, `binding`."""
