"""Inputs: finding them, reading them in blocks, decoding a block to text."""
