"""Looking at runs and models: the live view, the measures of a vocabulary, the page with the pictures."""
