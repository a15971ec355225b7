"""When does more text stop mattering? The same vocabulary learned from growing prefixes of a run's counts.

    share   chunks      in common   bytes/token    gain
    1/8     2 500 000     71.3 %        4.312
    1/4     5 000 000     80.9 %        4.371   +1.37 %
    ...
    all    20 000 000    100   %        4.421   +0.31 %

The documents are divided into 32 buckets (buckets.py): the sources are read again, and a hash of its text says in which
bucket a document is. A draw holds two buckets out and learns from the next one, two, four, ... and all others; draws
begin at different buckets, and the differences between them are the spread. `--text` holds out other text instead.

Memory: counts are streamed, and each vocabulary is learned within --memory. Disk: about twice the run's counts.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

from streambpe.arguments import arguments
from streambpe.config import TrainConfig
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import Stopped, UsageError
from streambpe.inspect.buckets import count_buckets
from streambpe.inspect.columns import print_columns
from streambpe.inspect.curves import uses_in_parts
from streambpe.model.eventlog import EventLog, read_event_log
from streambpe.model.replay import Model
from streambpe.options import several, taken, whole_number
from streambpe.progress import clock, present_meter, reported
from streambpe.resources import Resources
from streambpe.results import Result
from streambpe.store.chunks import fold
from streambpe.store.counted_as import refuse_like
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part, PartWriter, list_parts
from streambpe.store.run import Run
from streambpe.store.spans import Span
from streambpe.store.training_files import log_path
from streambpe.store.unfinished import refuse_half_counted
from streambpe.system import remove_folder
from streambpe.terminal import columns_of, wrapped
from streambpe.train.balance_texts import READ_WHOLE
from streambpe.train.counting.count import count
from streambpe.train.counting.tables import text_bytes
from streambpe.train.trainer import Trainer
from streambpe.train.training import Training

if TYPE_CHECKING:
    from streambpe.keywords import LearnKeywords

_RANGE_BYTES = 8 << 20
BUCKETS, _HELD_BUCKETS = 32, 2  # of the corpus, and held out
_MOST_STEPS, DRAWS = BUCKETS.bit_length(), 3
ENOUGH = 0.001  # where bytes per token are within this share of the last, more text no longer matters


@dataclass(frozen=True)
class Step:
    """The vocabulary of one prefix."""

    what: str  # the share
    chunks: int
    bytes: int
    distinct: int
    learned: int  # tokens beside the base symbols and the stop words
    in_common: float  # Jaccard: learned tokens in both this and the last vocabulary, of those in either
    bytes_per_token: float | None = None  # of the text held out; None if that is empty
    gain: float | None = None  # in bytes per token over the step before
    spread: dict[str, float] | None = None  # of each figure, half of what it differs between draws


@dataclass(frozen=True)
class Convergence(Result):
    """All steps, of which the last is the whole corpus; and what was held out."""

    held_out: str
    steps: tuple[Step, ...]  # means of all draws
    draws: tuple[tuple[Step, ...], ...]  # the steps of each

    @property
    def enough(self) -> str | None:
        """The first prefix from which on bytes per token stays within ENOUGH of the last; None: only with the whole."""
        last = self.steps[-1].bytes_per_token
        found = None
        for step in reversed(self.steps[:-1]):
            if last is None or step.bytes_per_token is None or abs(step.bytes_per_token / last - 1) > ENOUGH:
                break
            found = step.what
        return found

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {**asdict(self), "enough": self.enough, "enough_within": ENOUGH}


@reported("drawing prefixes")
def converge(
    run: Path | str,
    *,
    steps: int | str = _MOST_STEPS,
    draws: int = DRAWS,
    text: str | Sequence[str] = (),
    resources: Resources | None = None,
    stop: threading.Event | None = None,
    on_step: Callable[[str], None] = lambda what: None,
    like: str = "hf",
    progress: str = "none",
    **options: Unpack[LearnKeywords],
) -> Convergence:
    """Learn from growing prefixes of a run's counts and compare. The run itself is only read, once its tables hold all
    that was counted.

    `text`: sources to hold out instead of a part of the documents. `on_step` is told how long it takes, and then each
    step. `like`: the options of counting that it sets must be those of the run.
    """
    learning, _, resources = arguments("converge", options, None, resources)
    config, meter = TrainConfig.from_options(like, **learning), present_meter()
    steps = taken("steps", steps, whole_number)
    for flag, given, least, most in (("--steps", steps, 2, _MOST_STEPS), ("--draws", draws, 1, BUCKETS // 2)):
        if not least <= given <= most:
            raise UsageError(f"{flag} {given}: give a number from {least} to {most}.")
    folder = Run.open(run)
    _refuse_options(config)
    refuse_half_counted(folder)
    refuse_like(folder, like, None)
    facts = {key: folder.facts()[key] for key in ("config", "versions")}
    took = _took(folder, 2 * draws)
    on_step(f"this reads the sources once and learns {draws * steps} vocabularies, which takes about {took}")
    scratch = Run(folder.path / "converge")
    with contextlib.ExitStack() as behind, scratch.lock(), _keeping_nothing():
        behind.callback(shutil.rmtree, scratch.path, ignore_errors=True)  # once the lock is given back
        place = scratch.path / "files"
        remove_folder(place)  # a killed comparison may have left it
        place.mkdir()
        with folder.lock():  # no count may replace the parts meanwhile
            fold(folder, resources)
            buckets = count_buckets(folder, place, BUCKETS, resources, stop)
        sizes = {str(Fraction(1, 2**level)): BUCKETS >> level for level in range(steps - 1, 0, -1)}
        sizes["all"] = BUCKETS - _HELD_BUCKETS
        borders = [(0, _HELD_BUCKETS), *((_HELD_BUCKETS, _HELD_BUCKETS + n) for n in sizes.values())]
        drawn = []  # of each draw, what is held out, and the prefixes
        for first in (number * BUCKETS // draws for number in range(draws)):
            turned = buckets[first:] + buckets[:first]
            drawn.append([list(itertools.chain.from_iterable(turned[begin:end])) for begin, end in borders])
        if not all(sum(part.rows for part in parts) for parts in itertools.chain.from_iterable(drawn)):
            raise UsageError(
                f"{folder.path} has too few documents for {BUCKETS} buckets: one of them is empty. Nothing was "
                "changed. Count more, or count lines as documents (--lines)."
            )
        held_out = f"{_HELD_BUCKETS} of {BUCKETS} buckets of documents" + ", others in each draw" * (draws > 1)
        if text:
            how = json.loads(facts["config"]) | READ_WHOLE
            count(place / "text", list(several(text)), counting={"options": how}, resources=resources, stop=stop)
            of_text, held_out = list(list_parts(Run(place / "text"))), ", ".join(several(text))
            drawn = [[of_text, *prefixes] for _, *prefixes in drawn]
        read = [[*prefixes, *[held] * steps] for held, *prefixes in drawn]  # each is measured on what is held out
        rows = sum(part.rows for lists in read for parts in lists for part in parts)
        meter.begin("learning", rows, "chunks")
        compared = []
        for number, (held, *prefixes) in enumerate(drawn, 1):
            learned = []
            for name, parts in zip(sizes, prefixes, strict=True):
                on_step(f"learning from {name}" + f", draw {number} of {draws}" * (draws > 1))
                learned.append((name, *_learn(place / "run", facts, parts, config, resources, stop)))
                meter.advance(sum(part.rows for part in parts))
            compared.append(tuple(_compare(learned, held)))
    return Convergence(held_out, tuple(map(_mean, zip(*compared, strict=True))), tuple(compared))


@contextlib.contextmanager
def _keeping_nothing() -> Iterator[None]:
    """Whatever was stopped inside, counting or learning, what it made is gone."""
    try:
        yield
    except Stopped as stopped:
        why = "Stopped. A comparison keeps nothing; give the same command again."
        raise Stopped(why, stopped.signal_number) from None


def _refuse_options(config: TrainConfig) -> None:
    if config.superwords != "none":
        raise UsageError(
            f"--superwords {config.superwords}: superwords are learned from documents, which a part of the counts "
            "does not have. Compare vocabularies without superwords; how much text is enough is the same question."
        )
    if config.by_groups:
        raise UsageError(
            f"{config.by_groups}: converge learns from counts without groups. Nothing was changed. Leave it out."
        )


def _took(run: Run, times: int) -> str:
    """How long so many trainings of a run take, if one was the last thing that it did."""
    stages = run.read_status()["stage_seconds"] if run.status_file.exists() else {}
    seconds = sum(took for stage, took in stages.items() if stage in ("preparing", "words", "learning", "writing"))
    return clock(times * seconds) if "learning" in stages else f"as long as learning {times} times from all of RUN"


def _mean(steps: Sequence[Step]) -> Step:
    """The mean of the same step of several draws, and half of the distance between the least and the greatest."""
    means: dict[str, Any] = {"what": steps[0].what}
    spread = {}
    for name in ("bytes", *(name for name, _ in _COLUMNS.values())):
        values = [getattr(step, name) for step in steps]
        if None not in values:
            mean = statistics.fmean(values)
            means[name] = round(mean) if isinstance(values[0], int) else mean
            spread[name] = (max(values) - min(values)) / 2
    return Step(**means, spread=spread if len(steps) > 1 else None)


def _learn(
    place: Path, facts: dict[str, str], parts: Sequence[Part], config: TrainConfig, resources: Resources,
    stop: threading.Event | None,
) -> tuple[EventLog, Part]:  # fmt: skip
    """The event log of a training on the sum of these counts, in a run of its own that is gone afterwards; the sum."""
    run = Run(place)
    with run.lock():
        run.create(facts)
        size = 0
        with PartWriter(run.counts / "part-00001.parquet", run=run.number) as writer:
            for rows in merged_lists(parts, _RANGE_BYTES):
                writer.write(rows)
                size += text_bytes(rows)
            part = writer.commit(
                [Span("prefix", "counts", "", 0, writer.rows, 0, size, 0, 0, 0, "", "part-00001", 0, 0, "last")]
            )
    Trainer(Training(run, config, "main", resources), stop=stop or threading.Event()).run()
    log = read_event_log(log_path(run, "main"))
    remove_folder(place)
    return log, part


def _compare(learned: Sequence[tuple[str, EventLog, Part]], held: Sequence[Part]) -> Iterator[Step]:
    last = learned_tokens(learned[-1][1])
    before = None
    for what, log, part in learned:
        tokens = learned_tokens(log)
        measured = uses_in_parts(Tokenizer(log), parts=held, at_once=_RANGE_BYTES).bytes_per_token
        yield Step(
            what=what,
            chunks=part.total,
            bytes=part.spans.total("text_bytes"),
            distinct=part.rows,
            learned=len(tokens),
            in_common=len(tokens & last) / len(tokens | last) if tokens | last else 1.0,
            bytes_per_token=measured,
            gain=measured / before - 1 if measured and before else None,
        )
        before = measured


def learned_tokens(log: EventLog) -> set[bytes]:
    """What the living tokens that events made stand for."""
    model = Model(log)
    return {model.content(log_id) for log_id in model.model_id if log_id >= log.header.first_learned}


_COLUMNS = {
    "chunks": ("chunks", ",.0f"), "distinct": ("distinct", ",.0f"), "learned": ("learned", ",.0f"),
    "in common": ("in_common", ".1%"), "bytes/token": ("bytes_per_token", ".4f"), "gain": ("gain", "+.2%"),
}  # fmt: skip


def _shown(step: Step, name: str, how: str) -> str:
    """A figure, and its spread if it has one."""
    value = getattr(step, name)
    if value is None:
        return "-"
    spread = (step.spread or {}).get(name)
    return format(value, how) + ("" if spread is None else f" ±{format(spread, how.lstrip('+'))}")


def print_convergence(found: Convergence, out: TextIO) -> None:
    """Print a table, and in words whether more text matters."""
    heads = ("prefix", *_COLUMNS)
    rows = [(step.what, *(_shown(step, name, how) for name, how in _COLUMNS.values())) for step in found.steps]
    print_columns([heads, *rows], 1, out)
    notes = ["", f"bytes/token on: {found.held_out}"]
    if len(found.draws) > 1:
        notes.append(f"Means of {len(found.draws)} draws; ±: half of what differs between them.")
    if found.enough is None:
        notes.append(f"Only the whole is within {ENOUGH:.1%} of its own bytes/token: more text still matters.")
    else:
        notes.append(f"From {found.enough} on, bytes/token stays within {ENOUGH:.1%} of what all of it gives.")
    out.write(wrapped("\n".join(notes), columns_of(out)) + "\n")
