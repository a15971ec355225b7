"""Names that others give to the presets of --pattern. A RUN and a model keep the preset's own name."""

from __future__ import annotations

ALIASES = {
    "gpt-4o": "gpt4o",
    "o200k": "gpt4o",
    "o200k_base": "gpt4o",
    "gpt-4": "cl100k",
    "cl100k_base": "cl100k",
    "llama3": "gpt4",  # its expression is written otherwise and finds the same chunks
    "llama-3": "gpt4",
    "gpt-2": "gpt2",
    "r50k_base": "r50k",
    "p50k_base": "r50k",
}


def canonical(pattern: str) -> str:
    """The preset that a name stands for; any other pattern as it is."""
    return ALIASES.get(pattern.lower(), pattern)
