"""Superwords: merges across chunk borders, learned from the stored documents."""
