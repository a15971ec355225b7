"""Names that others give to the presets of --pattern. A RUN and a model keep the preset's own name."""

from __future__ import annotations

ALIASES = {
    "gpt-4o": "gpt4o",
    "o200k": "gpt4o",
    "o200k_base": "gpt4o",
    "llama4": "gpt4o",
    "llama-4": "gpt4o",
    "gpt-4": "cl100k",
    "cl100k_base": "cl100k",
    "llama3": "gpt4",  # its expression is written otherwise and finds the same chunks
    "llama-3": "gpt4",
    "gpt-2": "gpt2",
    "r50k_base": "r50k",
    "p50k_base": "r50k",
}

_TWO = (
    "gpt4 is the pattern of minbpe and rustbpe, and cl100k that of tiktoken for GPT-4: they differ at the end of a "
    "text."
)


def remark_on_alias(pattern: str) -> str | None:
    """A sentence about an alias, or about a name that other programs use for another pattern; None for other names."""
    preset = canonical(pattern)
    if pattern.lower() in ("gpt4", "gpt-4"):
        return f"--pattern {pattern} is {preset}. {_TWO}" if preset != pattern else f"--pattern {_TWO}"
    same = ", which finds the same chunks" * (preset == "gpt4")
    return f"--pattern {pattern} is {preset}{same}." if preset != pattern else None


def canonical(pattern: str) -> str:
    """The preset that a name stands for; any other pattern as it is."""
    return ALIASES.get(pattern.lower(), pattern)
