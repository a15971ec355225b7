"""Options of counting, given to a command that counts nothing, must equal what the RUN was counted with.

train RUN --pattern gpt2        RUN was counted with gpt4o: refused
train RUN --lines               a text file of RUN is one document: refused; else every line is one: taken
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from streambpe.config import LIKE_COUNTING
from streambpe.count_config import CountConfig, Counting, SourceOptions, reconcile
from streambpe.errors import RunMismatch
from streambpe.options import options_of
from streambpe.sources.source import WITH_FIELDS
from streambpe.store.groups import GroupRules
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.spans import Span


def refuse_other_counting(run: Run, counting: Counting) -> None:
    """An error if an option that is given differs from the run's; others are not compared."""
    if counting.options:
        reconcile(json.loads(run.facts()["config"]), counting.options, run.path)
    given, rules = counting.given(), GroupRules.from_options(counting.groups, counting.group_by)
    spans = list(list_parts(run).spans.firsts("path", "kind", "text_column")) if given else []
    for name, value in given.items():
        about = [(span, same) for span in spans if (same := _as_given(span, name, counting, rules)) is not None]
        other = next((span for span, same in about if not same), None)
        if about and other is None:
            continue
        differs = "it is about none of its sources"
        if other is not None:
            field = f" by its field {other.text_column}" if other.text_column else ""
            differs = f"{other.path} as {other.kind}{field}, in source group {other.group_name or 'none'!r}"
        shown = "" if value is True else f" {' '.join(value) if isinstance(value, tuple) else value}"
        raise RunMismatch(
            f"{options_of(SourceOptions)[name].flag}{shown} is an option of counting, but {run.path} was counted "
            f"differently: {differs}. Nothing was changed. Leave the option out, or count into another RUN."
        )


def _as_given(span: Span, option: str, counting: Counting, rules: GroupRules) -> bool | None:
    """Whether a source was counted as an option says; None if the option is not about this source."""
    match option:
        case "lines":
            return span.kind == "lines" if span.kind in ("txt", "lines") else None
        case "text_column":
            return span.text_column == counting.text_column if span.kind in WITH_FIELDS else None
        case "kind":
            return span.kind == ("lines" if counting.kind == "txt" and counting.lines else counting.kind)
        case "counts":
            return span.kind == "counts"
        case "stdin_name":
            return True if span.path == counting.stdin_name else None
        case "groups" | "group_by":
            return span.group_name == rules.group_of(span.path)
    return None  # --shard: the sources are chosen already


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
