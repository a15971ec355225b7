"""What a split is, by definition: a pattern is run with find-all, script by script if it says so; two follow rules.

split_text(PRESETS["gpt4"], "a b")  ->  ["a", " b"]
"""

from __future__ import annotations

from collections.abc import Iterator

from streambpe.text.patterns import Pattern
from streambpe.text.script_blocks import Group, character_groups
from streambpe.text.script_rules import TAKE_SPACE
from streambpe.text.script_runs import COMMON, FIRST_REAL, INHERITED, script_table
from streambpe.text.split import find_chunks
from streambpe.text.whitespace import WORD_MARK


def split_text(pattern: Pattern, text: str) -> list[str]:
    """The chunks of one whole document (or script run)."""
    if pattern.name == "script":
        return split_by_rules(text)
    if pattern.name == "whitespace":
        return [WORD_MARK + word for word in text.split()]
    if not pattern.expression:
        return [text] if text else []
    runs = split_script_runs(text) if pattern.script_compiled else [(text, False)]
    return [
        chunk
        for run, spaceless in runs
        for chunk in find_chunks(pattern.script_compiled if spaceless else pattern.compiled, run, pattern.keep_gaps)
    ]


def split_script_runs(text: str) -> Iterator[tuple[str, bool]]:
    """The script runs of one text and whether each is of a script without spaces, character by character."""
    table, spaceless = script_table()
    run_start, current, last = 0, -1, -1
    for i, character in enumerate(text):
        script = int(table[ord(character)])
        if script == current:
            last = i
        elif script == INHERITED:
            current = script if current < 0 else current
            last = i
        elif script < INHERITED:
            current = COMMON if current < 0 else current
        else:
            if current >= FIRST_REAL:
                yield text[run_start : last + 1], bool(spaceless[current])
                run_start = last + 1
            current, last = script, i
    if text:
        yield text[run_start:], current >= 0 and bool(spaceless[current])


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
