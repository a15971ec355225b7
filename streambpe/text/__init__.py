"""Text to chunks: patterns, borders, preparation. No files, no models."""
