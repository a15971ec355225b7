"""Learning merges from words: the compiled loop in memory, and passes over blocks on disk."""
