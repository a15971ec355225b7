"""Options of counting, given to a command that counts nothing, must equal what the RUN was counted with.

train RUN --pattern gpt2        RUN was counted with gpt4o: refused
train RUN --lines               a text file of RUN is one document: refused; else every line is one: taken
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from streambpe.config import LIKE_COUNTING
from streambpe.count_config import CountConfig, Counting, reconcile
from streambpe.errors import RunMismatch
from streambpe.store.groups import GroupRules
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.spans import WITH_FIELDS, Span


def refuse_other_counting(run: Run, counting: Counting) -> None:
    """An error if an option that is given differs from the run's; others are not compared."""
    if counting.options:
        reconcile(json.loads(run.facts()["config"]), counting.options, run.path)
    asked = counting.given()
    if not asked:
        return
    spans = list(list_parts(run).spans.firsts("path", "kind", "text_column"))
    for name, value in asked.items():
        differs = _DIFFERENCES[name](spans, value, counting)
        if differs:
            shown = "" if value is True else f" {' '.join(value) if isinstance(value, tuple) else value}"
            raise RunMismatch(
                f"--{_FLAGS.get(name, name.replace('_', '-'))}{shown} is an option of counting, but {run.path} was "
                f"counted differently: {differs}. Nothing was changed. Leave the option out, or count into another "
                "RUN."
            )


def may_skip_from_now_on(run: Run, saved: Mapping[str, Any]) -> bool:
    """Whether a run that was counted with --bad-lines error may go on with skip: what is counted has no such line.

    Not if a line of text may be counted in half: with --bad-utf8 error, its other half may leave all of it out.
    """
    if saved.get("bad_lines", "error") != "error" or saved.get("bad_utf8") != "error":
        return True
    spans = list_parts(run).by_path
    return all(path in spans.complete for path in spans if spans[path][0].kind == "lines")


def refuse_like(run: Run, like: str, options: Mapping[str, Any] | None) -> None:
    """An error if an option that `--like` sets for counting is not the run's; `options` (None: none) override it."""
    saved = asdict(CountConfig()) | json.loads(run.facts()["config"])
    for name, value in LIKE_COUNTING.get(like, {}).items():
        if (options or {}).get(name) is None and saved[name] != value:
            flag = f"--{name.replace('_', '-')}"
            meant = f"confirm it with {flag} {saved[name]}"
            or_else = "give its other options one by one" if options is None else meant
            raise RunMismatch(
                f"--like {like} counts with {flag} {value}, but {run.path} was counted with {flag} {saved[name]}. "
                f"Nothing was changed. Count into another RUN, or {or_else}."
            )


_FLAGS = {"kind": "format", "groups": "group"}


def _lines(spans: Sequence[Span], _value: bool, _asked: Counting) -> str:
    whole = next((span.path for span in spans if span.kind == "txt"), None)
    if whole:
        return f"{whole} is one document"
    return "" if any(span.kind == "lines" for span in spans) else "it holds no text file"


def _text_column(spans: Sequence[Span], value: str, _asked: Counting) -> str:
    other = next((span for span in spans if span.kind in WITH_FIELDS and span.text_column != value), None)
    if other:
        return f"{other.path} by its field {other.text_column}"
    return "" if any(span.kind in WITH_FIELDS for span in spans) else "none of its sources has fields"


def _kind(spans: Sequence[Span], value: str, asked: Counting) -> str:
    wanted = "lines" if value == "txt" and asked.lines else value
    other = next((span for span in spans if span.kind != wanted), None)
    return f"{other.path} as {other.kind}" if other else ""


def _counts(spans: Sequence[Span], _value: bool, _asked: Counting) -> str:
    other = next((span.path for span in spans if span.kind != "counts"), None)
    return f"{other} is not a table of counts" if other else ""


def _stdin_name(spans: Sequence[Span], value: str, _asked: Counting) -> str:
    return "" if any(span.path == value for span in spans) else f"no source is called {value}"


def _groups(spans: Sequence[Span], _value: Any, asked: Counting) -> str:
    rules = GroupRules.from_options(asked.groups, asked.group_by)
    other = next((span for span in spans if span.group_name != rules.group_of(span.path)), None)
    return f"{other.path} in source group {other.group_name or 'none'!r}" if other else ""


def _shard(_spans: Sequence[Span], _value: str, _asked: Counting) -> str:
    return "its sources are chosen already, and there are no new ones for --shard to choose from"


_DIFFERENCES: dict[str, Callable[[Sequence[Span], Any, Counting], str]] = {
    "lines": _lines,
    "text_column": _text_column,
    "kind": _kind,
    "counts": _counts,
    "stdin_name": _stdin_name,
    "groups": _groups,
    "group_by": _groups,
    "shard": _shard,
}
