"""What a split is, by definition: a pattern is run with find-all, script by script if it says so; two follow rules.

split_text(PRESETS["gpt4"], "a b")  ->  ["a", " b"]
"""

from __future__ import annotations

from streambpe.text.patterns import Pattern
from streambpe.text.script_blocks import Group, character_groups
from streambpe.text.script_rules import TAKE_SPACE
from streambpe.text.script_runs import split_script_runs
from streambpe.text.split import find_chunks
from streambpe.text.whitespace import WORD_MARK


def split_text(pattern: Pattern, text: str) -> list[str]:
    """The chunks of one whole document (or script run)."""
    if pattern.name == "script":
        return split_by_rules(text)
    if pattern.name == "whitespace":
        return [WORD_MARK + word for word in text.split()]
    seconds = pattern.document_seconds if pattern.name == "regex" else None
    if not pattern.script_expression:
        return find_chunks(pattern.compiled, text, pattern.keep_gaps, seconds)
    return [
        chunk
        for run, spaceless in split_script_runs(text)
        for chunk in find_chunks(
            pattern.script_compiled if spaceless else pattern.compiled, run, pattern.keep_gaps, seconds
        )
    ]


def split_by_rules(text: str) -> list[str]:
    """The chunks of one text under --pattern script, rule by rule (text/script_rules.py)."""
    names, group_of = character_groups()
    groups: list[str] = []
    keys: list[Group] = []
    for character in text:
        key = names[group_of[ord(character)]]
        if keys and keys[-1] == key:
            groups[-1] += character
        else:
            groups.append(character)
            keys.append(key)
    chunks: list[str] = []
    i = 0
    while i + 1 < len(groups):
        chunk, key = groups[i], keys[i]
        i += 1
        if chunk == " " and keys[i] in TAKE_SPACE:
            chunk, key = chunk + groups[i], keys[i]
            i += 1
        while i < len(groups) and _goes_on(key, keys[i]):
            chunk += groups[i]
            i += 1
        chunks.append(chunk)
    return chunks + groups[i:]


def _goes_on(key: Group, following: Group) -> bool:
    """Whether a group continues the chunk before it, whose key is `key`."""
    return (
        following[0] == "Inherited"
        or following == key
        or (following[1] == key[1] and {following[0], key[0]} == {"Hiragana", "Han"})
    )
