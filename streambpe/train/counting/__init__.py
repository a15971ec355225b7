"""Counting a corpus: sources to committed parts."""
