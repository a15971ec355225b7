"""Which Unicode tables decide the splits: those of the installed `regex` module, told apart by what they say.

Two versions of `regex` may have the same tables; then a RUN counted with one goes on with the other. If their tables
differ, the same text would fall into other chunks. So a RUN keeps the version of the package, the Unicode version, and
a digest of every class that its pattern asks for. A digest takes some 50 ms. Those of the versions this was written
with stand here (KNOWN), so one is made only for a new RUN under another version, and to compare where versions differ.

    general categories, \\s, \\w, pictographs, what a to z fold to     of every pattern
    \\p{Han}, [[:alpha:]]                                              that a user's own expression names besides
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import regex

from streambpe.errors import RunMismatch
from streambpe.text.characters import CATEGORIES, WRITTEN_WITH, every_character, unicode_version
from streambpe.text.patterns import PRESETS, Pattern

_WRITTEN = "cfb32ce384547aa9"
KNOWN = {"2026.11.15": _WRITTEN, WRITTEN_WITH: _WRITTEN}  # version of the package -> tables_digest()
_CLASSES = (r"\s", r"\w", r"\p{Extended_Pictographic}")
_NAMED = regex.compile(r"\\[pP]\{\^?([^}]+)\}|\\[pP]([A-Z])|\[:\^?([a-zA-Z_]+):\]")


def asks_tables(pattern: Pattern) -> bool:
    """Whether a pattern's splits hang on the tables of `regex`; false for rules with tables of their own."""
    return bool(pattern.expression) and not pattern.by_rules


def digest_of(pattern: Pattern) -> str:
    """The digest of the installed tables that a pattern asks."""
    named = named_properties(pattern)
    return (None if named else KNOWN.get(regex.__version__)) or tables_digest(named)


@functools.cache
def tables_digest(named: tuple[str, ...] = ()) -> str:
    """Digest of what the tables say of every code point; `named`: more properties. 16 hexadecimal digits."""
    digest = hashlib.sha256()
    text = every_character()
    one_of = regex.compile("|".join(rf"(\p{{{category}}}+)" for category in CATEGORIES))
    runs = [(match.start(), match.lastindex) for match in one_of.finditer(text)]
    digest.update(np.array(runs, np.int64).tobytes())
    folded = [f"(?i:{letter})" for letter in "abcdefghijklmnopqrstuvwxyz"]
    for members in (*_CLASSES, *(rf"\p{{{name}}}" for name in named)):
        spans = [match.span() for match in regex.finditer(members + "+", text)]
        digest.update(members.encode() + np.array(spans, np.int64).tobytes())
    # only letters fold to letters, so the rest is not searched
    letters = "".join(match.group() for match in regex.finditer(r"[\p{L}\p{M}]+", text))
    for members in folded:
        digest.update("".join(regex.findall(members, letters)).encode())
    return digest.hexdigest()[:16]


def named_properties(pattern: Pattern) -> tuple[str, ...]:
    """The properties that an expression names, without those that every digest has, sorted."""
    expressions = (pattern.expression, pattern.script_expression or "")
    found = {"".join(groups) for expression in expressions for groups in _NAMED.findall(expression)}
    known = {*CATEGORIES, *(category[0] for category in CATEGORIES), "Extended_Pictographic"}
    return tuple(sorted(found - known))


def tables_fact(pattern: Pattern) -> dict[str, str]:
    """For table run: the tables that a RUN is counted with; empty if its pattern asks no tables."""
    if not asks_tables(pattern):
        return {}
    fact = {"regex": regex.__version__, "version": unicode_version(), "digest": digest_of(pattern)}
    return {"unicode": json.dumps(fact)}


def refuse_other_tables(run: Path, facts: Mapping[str, str], pattern: Pattern, what: str) -> None:
    """An error if a run was counted with other tables than those installed, which `what` would mix."""
    if "unicode" not in facts or not asks_tables(pattern):
        return
    fact: dict[str, str] = json.loads(facts["unicode"])
    here = regex.__version__
    if fact["regex"] == here or fact["digest"] == digest_of(pattern):
        return
    raise RunMismatch(
        f"{run} is counted with the character tables of Unicode {fact['version']} (regex {fact['regex']}); here are "
        f"those of {unicode_version()} (regex {here}), which differ: {what} would mix two splits. Nothing was changed. "
        f"`pip install regex=={fact['regex']}` goes on; or count into another RUN."
    )


def remark_on_tables(name: str, config: Mapping[str, Any], unicode: str | None) -> str | None:
    """A warning if a model was learned with tables of another Unicode version than those installed; else None."""
    pattern = PRESETS.get(config.get("pattern", "none"))
    if unicode is None or (pattern is not None and not asks_tables(pattern)):
        return None
    here = unicode_version()
    if here == unicode:
        return None
    return (
        f"{name} was learned with the character tables of Unicode {unicode}; here are those of {here} (regex "
        f"{regex.__version__}). Text with characters that differ is split otherwise than in training."
    )
