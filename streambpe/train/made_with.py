"""The options that a training was made with, all of them, as an option file: RUN/train.toml, RUN/NAME.train.toml.

`streambpe train OTHER SOURCE... --config RUN/train.toml` learns the same from the same sources, even if defaults have
changed since. Memory, threads and names change no result and are not in it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Any

from streambpe.config import TrainConfig
from streambpe.count_config import TOLD_IF_SET, CountConfig, Counting, SourceOptions
from streambpe.disk import disk_full_explained
from streambpe.errors import StoreHeld
from streambpe.files import put_content
from streambpe.option_file import format_options
from streambpe.options import options_of
from streambpe.sources.source import WITH_FIELDS
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.spans import Spans
from streambpe.train.as_model import SPLITTING
from streambpe.train.extension import OF_MODEL

_HEAD = "# Options of a training: streambpe train RUN SOURCE... --config THIS_FILE\n\n"
_EXTENDED = "# MODEL: extended.jsonl beside this file, or NAME.extended.jsonl\n\n"
_MEASURED = "# GROUP=FILE: what each group was measured on; its counts are in the folder balance beside this file\n\n"
_PARTS = {
    "How sources are read": options_of(SourceOptions).values(),
    "How text becomes chunks": options_of(CountConfig).values(),
    "What is learned": options_of(TrainConfig).values(),
}


def keep_options(run: Run, name: str, config: TrainConfig, counting: Counting) -> None:
    """Write the file of a training, unless it is there already. If another process holds the tables, the next command
    writes it."""
    path = run.path / ("train.toml" if name == "main" else f"{name}.train.toml")
    with contextlib.suppress(StoreHeld), disk_full_explained(run.path):
        put_content(path, _describe_options(run, config, counting).encode())


def _describe_options(run: Run, config: TrainConfig, counting: Counting) -> str:
    """The text of the file; what `counting` does not say is taken from what RUN has counted."""
    counted = asdict(CountConfig()) | json.loads(run.facts()["config"])
    # given by hand, even the default of these says more than leaving them out
    for name in ("bad_utf8", "bad_lines", "sequences", *TOLD_IF_SET):
        if counted[name] == getattr(CountConfig, name):
            del counted[name]
    learned = config.as_options()
    head = _HEAD
    if learned.pop("extends", None) is not None:  # the model is in the RUN
        head = head.replace("--config", "--extend MODEL --config") + _EXTENDED
        learned = {key: value for key, value in learned.items() if key not in OF_MODEL}
        second = counted["pattern"] if learned.pop("extends_pattern", None) is not None else None
        counted = {key: value for key, value in counted.items() if key not in SPLITTING}
        if second is not None:
            learned |= {"superwords": "uw", "stage2_pattern": second}
    if learned.pop("balanced_on", None) is not None:
        head = head.replace("--config", "--balance-text GROUP=FILE --config") + _MEASURED
    return head + format_options({**of_sources(list_parts(run).spans, counting), **counted, **learned}, _PARTS)


def of_sources(spans: Spans, given: SourceOptions) -> dict[str, Any]:
    """How the sources were read: as was given, else as the counted stretches show if they are all alike."""
    kinds = set(spans.values("kind"))
    fields = {span.text_column for span in spans.firsts("kind", "text_column") if span.kind in WITH_FIELDS}
    told: dict[str, Any] = {}
    if "lines" in kinds and "txt" not in kinds:
        told["lines"] = True
    if kinds == {"counts"}:
        told["counts"] = True
    if len(fields) == 1 and fields != {"text"}:
        told["text_column"] = fields.pop()
    return {**told, **given.given()}
