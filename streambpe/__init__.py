"""streambpe: learn BPE-family vocabularies from corpora far larger than memory."""

__version__ = "0.1.0"
