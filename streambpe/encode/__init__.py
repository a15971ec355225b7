"""Text to ids and back: the encoder, the tokenizer, whole corpora, and other programs' formats."""
