"""When does more text stop mattering? The same vocabulary learned from growing prefixes of a run's counts.

    share   chunks      in common   order   bytes/token    gain
    1/8     2 500 000     71.3 %    0.941        4.312
    1/4     5 000 000     80.9 %    0.967        4.371   +1.37 %
    ...
    all    20 000 000    100   %    1            4.421   +0.31 %

Prefixes are made of counts, smallest first:

- by share: every chunk's count is halved at random, again and again: n in each prefix is
  Binomial(n in the next larger one, 1/2). The prefixes are nested and stand for texts in which the chunks of
  the whole corpus are spread evenly. Before that, one chunk in 16 is drawn; these are the text held out.
- by documents (the default): the sources are read again, and their documents divided into 32 buckets by a hash of
  their text (buckets.py). A draw holds two buckets out and learns from the next one, two, four, ... and all others;
  draws begin at different buckets, and the differences between them are the spread.
- by group: the first source group, the first two, and so on, as they would arrive; the last one is held out.

`--text` holds out other text instead. Draws come from one generator per level that never changes (numpy's
RandomState), used in the byte order of the chunks: the same counts give the same result on any machine.

Memory: counts are streamed, and each vocabulary is learned within --memory. Disk: about twice the run's counts.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.config import TrainConfig
from streambpe.core.strings import ChunkList
from streambpe.encode.encoder import Encoder
from streambpe.errors import Stopped, UsageError
from streambpe.inspect.buckets import count_buckets, cyclic, write_counts, writing
from streambpe.inspect.columns import print_columns
from streambpe.model.eventlog import EventLog, read_event_log
from streambpe.progress import Meter
from streambpe.resources import Resources
from streambpe.store.chunks import fold
from streambpe.store.counted_as import refuse_like
from streambpe.store.job import refuse_half_counted
from streambpe.store.merge import merge_ranges, merged_lists
from streambpe.store.parts import Part, PartWriter, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.spans import Span
from streambpe.store.training_files import log_path
from streambpe.store.weights import check_weights, weighed_counts
from streambpe.system import remove_folder
from streambpe.train.counting.count import count
from streambpe.train.counting.tables import text_bytes
from streambpe.train.trainer import Trainer

_RANGE_BYTES = 8 << 20
_HELD_OUT = 16  # one chunk in so many is held out, by share
_LEVELS_SEED = 20_000  # of the first generator; each level has the next number
BUCKETS, _HELD_BUCKETS = 32, 2  # by documents: of the corpus, and held out
ENOUGH = 0.001  # where bytes per token are within this share of the last, more text no longer matters


@dataclass(frozen=True)
class Step:
    """The vocabulary of one prefix."""

    what: str  # the share, or the group added
    chunks: int
    bytes: int
    distinct: int
    size: int  # symbols, stop words and learned tokens that live
    learned: int  # tokens beside the base symbols and the stop words
    in_common: float  # Jaccard: learned tokens in both this and the last vocabulary, of those in either
    order: float | None  # Spearman's rank correlation of the common tokens' order in both; None if fewer than two
    same_events: int  # leading events that are also the last vocabulary's
    bytes_per_token: float | None  # of the text held out; None if that is empty
    gain: float | None  # in bytes per token over the step before
    spread: dict[str, float] | None = None  # by documents: of each figure, half of what it differs between draws


@dataclass(frozen=True)
class Convergence:
    """All steps, of which the last is the whole corpus; and what was held out."""

    by: str
    held_out: str
    steps: tuple[Step, ...]  # by documents: means of all draws
    draws: tuple[tuple[Step, ...], ...] = ()  # by documents: the steps of each

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


def converge(
    run: Path | str,
    config: TrainConfig | None = None,
    *,
    by: str = "documents",
    steps: int | None = None,
    draws: int | None = None,
    text: Sequence[str] = (),
    resources: Resources | None = None,
    stop: threading.Event | None = None,
    on_step: Callable[[str], None] = lambda what: None,
    allow_partial: bool = False,
    like: str = "hf",
    meter: Meter | None = None,
) -> Convergence:
    """Learn from growing prefixes of a run's counts and compare. The run itself is only read, once its tables hold all
    that was counted.

    `text`: sources to hold out instead of a part of the counts. `on_step` is told what is learned from next.
    `allow_partial`: allow a run that is not counted to its end. `like`: what `config` was made with; the options of
    counting that it sets must be the run's. `meter` is told how far it is.
    """
    if by not in ("documents", "share", "group"):
        raise UsageError(f"--by {by}: documents, share or group.")
    if draws is not None and by != "documents":
        raise UsageError(f"--draws is for --by documents, and this is --by {by}. Leave it out.")
    if draws is not None and not 1 <= draws <= BUCKETS // _HELD_BUCKETS:
        raise UsageError(f"--draws {draws}: 1 to {BUCKETS // _HELD_BUCKETS}.")
    if by == "group" and steps is not None:
        raise UsageError("--steps is for --by share: by group there is a step for each source group. Leave it out.")
    steps = 6 if steps is None else steps
    if steps < 2:
        raise UsageError(f"--steps {steps}: at least 2.")
    if by == "documents" and steps > BUCKETS.bit_length():
        raise UsageError(f"--steps {steps}: at most {BUCKETS.bit_length()} with --by documents, of {BUCKETS} buckets.")
    folder = Run.open(run)
    config = config or TrainConfig()
    if config.superwords != "none":
        raise UsageError(
            f"--superwords {config.superwords}: a part of the counts has no documents, and superwords are learned from "
            f"them. Compare vocabularies without superwords; how many words matter is the same question."
        )
    if by == "documents" and allow_partial:
        raise UsageError("--allow-partial: --by documents reads whole sources. Count them to their end, or --by share.")
    if not allow_partial:
        refuse_half_counted(folder, ", or compare what is there with --allow-partial")
    refuse_like(folder, like, None)
    resources = resources or Resources.from_options()
    facts = {key: folder.facts()[key] for key in ("config", "versions")}
    meter = meter or Meter("learning")
    scratch = Run(folder.path / "converge")
    with contextlib.ExitStack() as behind, scratch.lock():
        behind.callback(shutil.rmtree, scratch.path, ignore_errors=True)  # once the lock is given back
        place = scratch.path / "files"
        remove_folder(place)  # a killed comparison may have left it
        place.mkdir()
        with folder.lock():  # no count may replace the parts meanwhile
            fold(folder, resources)
            if by == "documents":
                drawn, held_out = _draw_documents(folder, place, config, steps, draws or 3, resources, stop, meter)
            else:
                draw = _draw_chunks if by == "share" else _draw_groups
                drawn, held_out = draw(folder, place, config, steps)
        if text:
            how = json.loads(facts["config"]) | {"sequences": False}
            count(place / "text", list(text), options=how, resources=resources, stop=stop)
            of_text = list(list_parts(Run(place / "text")))
            drawn = [(prefixes, of_text) for prefixes, _ in drawn]
            held_out = ", ".join(text)
        plain = replace(config, weights={})
        every = [part for prefixes, _ in drawn for _, parts in prefixes for part in parts]
        meter.begin("learning", sum(part.rows for part in every), "chunks")
        compared = []
        for number, (prefixes, held) in enumerate(drawn, 1):
            learned = []
            for name, parts in prefixes:
                on_step(name + f", draw {number} of {len(drawn)}" * (len(drawn) > 1))
                learned.append((name, *_learn(place / "run", facts, parts, plain, resources, stop)))
                meter.advance(sum(part.rows for part in parts))
            compared.append(tuple(_compare(learned, held)))
    if by != "documents":
        return Convergence(by, held_out, compared[0])
    means = tuple(_mean(same) for same in zip(*compared, strict=True))
    return Convergence(by, held_out, means, tuple(compared))


def _mean(steps: Sequence[Step]) -> Step:
    """The mean of the same step of several draws, and half of the distance between the least and the greatest."""
    means: dict[str, Any] = {}
    spread = {}
    for name in Step.__annotations__:
        if name in ("what", "spread"):
            continue
        values = [getattr(step, name) for step in steps]
        means[name] = None
        if None not in values:
            mean = sum(values) / len(values)
            means[name] = round(mean) if isinstance(values[0], int) else mean
            spread[name] = (max(values) - min(values)) / 2
    return Step(what=steps[0].what, spread=spread if len(steps) > 1 else None, **means)


# ---------------------------------------------------------------------------------------------------------
# prefixes


Drawn = list[tuple[list[tuple[str, list[Part]]], list[Part]]]  # draws: (prefixes, smallest first; what is held out)


def _draw_chunks(run: Run, place: Path, config: TrainConfig, steps: int) -> tuple[Drawn, str]:
    """Halve the counts again and again, in one pass; with a text that says what is held out."""
    _check_groups(run, config)
    generators = [np.random.RandomState(_LEVELS_SEED + level) for level in range(steps)]
    with contextlib.ExitStack() as stack:
        counts = stack.enter_context(weighed_counts(run, config.weights, place / "weighed"))
        writers = [stack.enter_context(writing(place / f"prefix-{level}.parquet")) for level in range(steps)]
        held = stack.enter_context(writing(place / "held.parquet"))
        for frame in merge_ranges([counts], _RANGE_BYTES):
            n = frame["n"].to_numpy()
            out = generators[0].binomial(n, 1 / _HELD_OUT)
            _write_drawn(held, frame, out)
            n = n - out
            _write_drawn(writers[0], frame, n)
            for generator, writer in zip(generators[1:], writers[1:], strict=True):
                n = generator.binomial(n, 0.5)
                _write_drawn(writer, frame, n)
        shares = [str(Fraction(1, 2**level)) if level else "all" for level in range(steps)]
        made = [(share, [writer.commit([])]) for share, writer in zip(shares, writers, strict=True)]
        return [(made[::-1], [held.commit([])])], f"one chunk in {_HELD_OUT}, drawn from the counts"


def _write_drawn(writer: PartWriter, frame: pl.DataFrame, n: npt.NDArray[np.int64]) -> None:
    writer.write(ChunkList.of(pl.DataFrame({"chunk": frame["chunk"], "n": n}).filter(pl.col("n") > 0)))


def _draw_groups(run: Run, place: Path, config: TrainConfig, steps: int) -> tuple[Drawn, str]:
    """The first group, the first two, and so on, but the last; with a text that says what is held out."""
    groups = _check_groups(run, config)
    names = [name for name in groups if name]
    if len(names) < 3:
        raise UsageError(
            f"{run.path} has {len(names)} named source groups; --by group compares two or more and holds the last out. "
            f"They are named while counting, with --group or --group-by."
        )
    made = []
    for k, name in enumerate(names[:-1], 1):
        with weighed_counts(run, config.weights, place / "weighed", only=names[:k]) as counts:
            made.append((name, [write_counts(place / f"prefix-{k}.parquet", merged_lists([counts], _RANGE_BYTES))]))
    return [(made, groups[names[-1]])], f"source group {names[-1]}"


def _check_groups(run: Run, config: TrainConfig) -> dict[str, list[Part]]:
    """The parts of each source group, of which --weight names no other."""
    groups = parts_by_group(list_parts(run))
    check_weights(run.path, groups, config.weights)
    if config.balance:
        raise UsageError("--balance: converge learns from parts of all counts together, without groups. Leave it out.")
    return groups


def _draw_documents(
    run: Run, place: Path, config: TrainConfig, steps: int, draws: int, resources: Resources,
    stop: threading.Event | None, meter: Meter,
) -> tuple[Drawn, str]:  # fmt: skip
    """Prefixes of documents, of others in each draw; with a text that says what is held out."""
    if config.weights or config.balance:
        what = "--balance: converge learns from counts"
        if not config.balance:
            what = "--weight: converge --by share knows weights; documents are taken"
        raise UsageError(f"{what} without groups. Nothing was changed. Leave it out.")
    buckets = count_buckets(run, place, BUCKETS, resources, stop, meter)
    sizes = {str(Fraction(1, 2**level)): BUCKETS >> level for level in range(steps - 1, 0, -1)}
    sizes["all"] = BUCKETS - _HELD_BUCKETS
    drawn = []
    for begin in (number * BUCKETS // draws for number in range(draws)):
        made = [(share, cyclic(buckets, begin + _HELD_BUCKETS, size)) for share, size in sizes.items()]
        held = cyclic(buckets, begin, _HELD_BUCKETS)
        if not all(parts for _, parts in made) or not held:
            raise UsageError(
                f"{run.path} has too few documents to be divided into {BUCKETS} buckets: one that is needed is empty. "
                f"Nothing was changed. Draw chunks instead: --by share."
            )
        drawn.append((made, held))
    return drawn, f"{_HELD_BUCKETS} of {BUCKETS} buckets of documents, others in each draw"


# ---------------------------------------------------------------------------------------------------------
# vocabularies


def _learn(
    place: Path, facts: dict[str, str], parts: Sequence[Part], config: TrainConfig, resources: Resources,
    stop: threading.Event | None,
) -> tuple[EventLog, Part]:  # fmt: skip
    """The event log of a training on the sum of these counts, in a run of its own that is gone afterwards; the sum."""
    run = Run(place)
    with run.lock():
        run.create(facts)
        with writing(run.counts / "part-00001.parquet", run.number) as writer:
            size = 0
            for rows in merged_lists(parts, _RANGE_BYTES):
                writer.write(rows)
                size += text_bytes(rows)
            part = writer.commit(
                [Span("prefix", "counts", "", 0, writer.rows, 0, size, 0, 0, 0, "", "part-00001", 0, 0, "last")]
            )
    try:
        Trainer(run, config, resources=resources, stop=stop).run()
    except Stopped as stopped:
        raise Stopped(
            "Stopped. A comparison keeps nothing: give the same command again.", stopped.signal_number
        ) from None
    log = read_event_log(log_path(run, "main"))
    remove_folder(place)
    return log, part


def _compare(learned: Sequence[tuple[str, EventLog, Part]], held: Sequence[Part]) -> Iterator[Step]:
    last_log = learned[-1][1]
    last = learned_tokens(last_log)
    before = None
    for what, log, part in learned:
        tokens = learned_tokens(log)
        either = set(tokens) | set(last)
        pairs = zip(_decisions(log), _decisions(last_log), strict=False)
        measured = bytes_per_token(log, held)
        yield Step(
            what=what,
            chunks=part.total,
            bytes=part.spans.total("text_bytes"),
            distinct=part.rows,
            size=Encoder(log).model.vocabulary.size,
            learned=len(tokens),
            in_common=len(set(tokens) & set(last)) / len(either) if either else 1.0,
            order=rank_correlation(tokens, last),
            same_events=sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)),
            bytes_per_token=measured,
            gain=measured / before - 1 if measured and before else None,
        )
        before = measured


def _decisions(log: EventLog) -> Iterator[tuple[object, ...]]:
    return ((event.op, event.left, event.right, event.id) for event in log.events)


def learned_tokens(log: EventLog) -> list[bytes]:
    """The living tokens that events made, in the order of their model ids; bytes that two tokens share stand once."""
    model = Encoder(log).model
    first = model.vocabulary.first_id + len(model.alphabet) + len(log.header.stop_words)
    living = sorted((number, log_id) for log_id, number in model.model_id.items() if log_id >= first)
    return list(dict.fromkeys(model.content(log_id) for _, log_id in living))


def rank_correlation(a: Sequence[bytes], b: Sequence[bytes]) -> float | None:
    """Spearman's rank correlation of the tokens that both have; None if fewer than two."""
    both = set(a) & set(b)
    if len(both) < 2:
        return None
    place = {token: i for i, token in enumerate(token for token in b if token in both)}
    difference = sum((i - place[token]) ** 2 for i, token in enumerate(token for token in a if token in both))
    return 1 - 6 * difference / (len(both) * (len(both) ** 2 - 1))


def bytes_per_token(log: EventLog, held: Sequence[Part]) -> float | None:
    """Bytes of the counted chunks, divided by the tokens that encode them; every distinct chunk is encoded once."""
    encoder = Encoder(log)
    size = tokens = 0
    for frame in merge_ranges(held, _RANGE_BYTES):
        _, many = encoder.encode_distinct(frame["chunk"])
        n = frame["n"].to_list()
        size += text_bytes(ChunkList.of(frame))
        tokens += sum(a * b for a, b in zip(many.tolist(), n, strict=True))
    return size / tokens if tokens else None


_COLUMNS = {
    "chunks": ("chunks", ",.0f"), "distinct": ("distinct", ",.0f"), "learned": ("learned", ",.0f"),
    "in common": ("in_common", ".1%"), "order": ("order", ".3f"), "bytes/token": ("bytes_per_token", ".4f"),
    "gain": ("gain", "+.2%"),
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
    out.write(f"\nbytes/token on: {found.held_out}\n")
    if len(found.draws) > 1:
        out.write(f"Means of {len(found.draws)} draws; ±: half of what differs between them.\n")
    elif found.by == "share":
        out.write("Chunks were drawn, not documents: real text differs more. --by documents is nearer the truth.\n")
    if found.enough is None:
        out.write(f"Only the whole is within {ENOUGH:.1%} of its own bytes/token: more text still matters.\n")
    else:
        out.write(f"From {found.enough} on, bytes/token stays within {ENOUGH:.1%} of what all of it gives.\n")
