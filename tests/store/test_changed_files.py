"""A file in RUN that was swapped, cut off, added to or lost: told in one message, or made again as it was."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streambpe import Tokenizer
from streambpe.config import TrainConfig
from streambpe.errors import RunError, StreambpeError
from streambpe.inspect.check import check
from streambpe.inspect.query import Query
from streambpe.resources import Resources
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count
from streambpe.train.trainer import Trainer
from tests.runs import killed_at, rows, small_blocks
from tests.samples import natural_text

RESOURCES = Resources(400 * 10**6, 1)
PHRASES = (" by the end of the day and at the end of the line.\n", " one of the many, and many of the few at once.\n")
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"vocab_size": 290},
    "boundless": {"vocab_size": 300, "superwords": "boundless"},
    "uw": {"vocab_size": 300, "superwords": "uw", "transition": 280},
}
PATTERNS = {"plain": "gpt4o", "boundless": "boundless", "uw": "superbpe1"}
# name -> what is trained, where the process ends, and where the one that goes on (to 300 tokens) ends
STATES: dict[str, tuple[str, ...]] = {
    "counting": ("boundless", "part-committed:4"),
    "learning": ("plain", "snapshot-made:2"),
    "larger": ("plain", "", "journal-created"),
    "neighbours": ("boundless", "neighbours-0-committed"),
    "superwords": ("boundless", "neighbours-0-committed", "events-committed"),  # the first commit of phase two
    "uw": ("uw", "neighbours-0-committed", "events-committed"),
    "finished": ("plain", ""),
    "finished superwords": ("boundless", ""),
}


@contextlib.contextmanager
def ended_at(place: str) -> Iterator[None]:
    """The process ends where a failpoint says, or not at all; here it goes on behind it."""
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 4000, committing=True)
        patch.setitem(Trainer.__init__.__kwdefaults__, "snapshot_seconds", -1.0)
        patch.setattr("streambpe.train.pace._SHARE", 0)
        with killed_at(place) if place else contextlib.nullcontext():
            yield


def make(run: Path, corpus: Path, state: str) -> None:
    """A RUN in this state."""
    kind, place, *then = STATES[state]
    how = {"resources": RESOURCES, "checkpoint_seconds": 0.0, **OPTIONS[kind]}
    with ended_at(place):
        train(run, [str(corpus)], counting={"options": {"pattern": PATTERNS[kind]}}, **how)
    for place in then:
        with ended_at(place):
            train(run, **{**how, "vocab_size": 300})


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[[str, int], Path]:
    """RUNs by state and corpus, made when they are first asked for."""
    folder = tmp_path_factory.mktemp("made")
    for seed in (0, 1):
        corpus = folder / f"corpus{seed}"
        corpus.mkdir()
        for i in range(2):
            (corpus / f"{i}.txt").write_text(natural_text(10 * seed + i, 10_000) + PHRASES[seed] * 60)

    def get(state: str, seed: int = 0) -> Path:
        run = folder / f"{state}-{seed}"
        if not run.exists():
            make(run, folder / f"corpus{seed}", state)
        return run

    return get


@pytest.fixture(scope="module")
def unbroken(made, tmp_path_factory) -> Callable[[str], bytes]:
    """The log that an undisturbed RUN in this state comes to."""
    known: dict[str, bytes] = {}

    def get(state: str) -> bytes:
        if state not in known:
            run = shutil.copytree(made(state), tmp_path_factory.mktemp("unbroken") / "run")
            resume(run, resources=RESOURCES)
            known[state] = (run / "model.events.jsonl").read_bytes()
        return known[state]

    return get


def only(folder: Path, glob: str) -> Path:
    """The last file or folder that matches; there must be one."""
    return sorted(folder.glob(glob))[-1]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "cut": lambda data: data[:-5],
    "longer": lambda data: data + b"\x00garbage",
}


def damage(path: Path, how: str, other: Path | None = None) -> None:
    """Do it to one file, or swap a folder."""
    if how == "lost":
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif how == "other":
        assert other is not None
        if path.is_dir():
            shutil.rmtree(path)
            shutil.copytree(other, path)
        else:
            assert path.read_bytes() != other.read_bytes()
            shutil.copyfile(other, path)
    else:
        path.write_bytes(DAMAGES[how](path.read_bytes()))


# state, file, and what becomes of each damage: "t" told, "m" made again with the same result
CASES = [
    ("counting", "counts/part-*.parquet", {"other": "t", "empty": "t", "half": "t", "longer": "t", "lost": "m"}),
    ("counting", "counts", {"other": "t"}),
    ("counting", "sequences/part-*.chunks.parquet", {"other": "t", "half": "t", "lost": "t"}),
    ("counting", "sequences/part-*1.parquet", {"other": "t", "empty": "t", "cut": "t", "longer": "t", "lost": "t"}),
    ("counting", "run.json", {"other": "t", "empty": "t", "lost": "t"}),
    ("counting", "state.duckdb", {"other": "t", "empty": "t", "half": "t", "lost": "m"}),
    ("learning", "counts/*.parquet", {"other": "t", "lost": "t"}),
    ("learning", "state.duckdb", {"other": "t"}),
    ("learning", "pending.events", {"other": "t", "empty": "t", "half": "m", "cut": "m", "longer": "m", "lost": "m"}),
    ("learning", "training/main/snapshot-*", {"other": "m", "lost": "m"}),
    *(("learning", f"training/main/snapshot-*/{name}", dict.fromkeys(("other", "half", "lost"), "m"))
      for name in ("symbols.i32", "offsets.i64", "weights.i64", "made_of.json")),
    ("larger", "pending.events", {"half": "m"}),
    ("larger", "model.events.jsonl", {"other": "m"}),
    ("neighbours", "training/main/superwords-*/neighbours-*.parquet", dict.fromkeys(("other", "half", "lost"), "m")),
    *(("superwords", "training/main/superwords-*/neighbours.parquet", {how: "m"})
      for how in ("other", "empty", "half", "lost")),
    ("superwords", "training/main/superwords-*/words-*", {"other": "m", "lost": "m"}),
    ("superwords", "training/main/superwords-*/words-*/symbols.i32", dict.fromkeys(("other", "half", "longer"), "m")),
    ("superwords", "pending.events", {"other": "t", "empty": "t", "half": "m", "lost": "m"}),
    ("superwords", "sequences", {"other": "t"}),
    ("uw", "training/main/superwords-*/stage2/part-*1.parquet", dict.fromkeys(("other", "empty", "lost"), "m")),
    ("uw", "training/main/superwords-*/stage2/*.counts.parquet", dict.fromkeys(("other", "half", "lost"), "m")),
]  # fmt: skip
FLAT = [(state, file, how, then) for state, file, hows in CASES for how, then in hows.items()]


_SAYS_WHAT_TO_DO = r"`streambpe|[Rr]emove|[Mm]ove (it|the part) away|Put the right one back|[Cc]ount all sources"


@pytest.mark.every(3)
@pytest.mark.long
@pytest.mark.parametrize(("state", "file", "how", "then"), FLAT)
def test_resumed_with_a_changed_file(made, unbroken, tmp_path, state, file, how, then):
    """`resume` says in one message that something is wrong, or comes to what it comes to undisturbed."""
    wanted = unbroken(state)
    run = shutil.copytree(made(state), tmp_path / "run")
    damage(only(run, file), how, only(made(state, 1), file) if how == "other" else None)
    if then == "t":
        with pytest.raises(StreambpeError, match=_SAYS_WHAT_TO_DO):
            resume(run, resources=RESOURCES)
        return
    resume(run, resources=RESOURCES)
    assert (run / "model.events.jsonl").read_bytes() == wanted
    assert check(run, resources=RESOURCES) == []


@pytest.mark.long
def test_a_stretch_that_two_parts_hold_is_not_counted_twice(made, tmp_path):
    """A part of before the parts were merged, put back."""
    run = shutil.copytree(made("finished superwords"), tmp_path / "run")
    shutil.copytree(made("counting"), tmp_path / "before")
    part = only(tmp_path / "before" / "counts", "part-*.parquet")
    shutil.copy(part, run / "counts")
    with pytest.raises(StreambpeError, match="different RUNs"):
        train(run, name="again", resources=RESOURCES, **OPTIONS["boundless"])


@pytest.mark.long
def test_the_tables_are_made_again_with_the_options_they_had(made, tmp_path):
    """state.duckdb lost: counted with --pattern gpt4o, it is not gone on with under another default."""
    run = shutil.copytree(made("finished superwords"), tmp_path / "run")
    log = (run / "model.events.jsonl").read_bytes()
    (run / "state.duckdb").unlink()
    count(run, [str(made("finished").parent / "corpus0")], resources=RESOURCES)
    train(run, resources=RESOURCES, **OPTIONS["boundless"])
    assert (run / "model.events.jsonl").read_bytes() == log
    assert check(run, resources=RESOURCES) == []


@pytest.mark.long
def test_a_model_of_another_run_is_not_encoded_with(made, tmp_path):
    """The log of another RUN, or of another training, in the place of this one's."""
    run = shutil.copytree(made("finished"), tmp_path / "run")
    train(run, name="x", resources=RESOURCES, **{**OPTIONS["plain"], "vocab_size": 280})
    assert Tokenizer(run).n_vocab == 290
    for other in (made("finished", 1) / "model.events.jsonl", run / "x.events.jsonl"):
        shutil.copy(other, run / "model.events.jsonl")
        with pytest.raises(StreambpeError, match=r"is not what training main of .* wrote"):
            Tokenizer(run)
        with pytest.raises(StreambpeError, match=r"is not what training main of .* wrote"):
            train(run, resources=RESOURCES, **OPTIONS["plain"])
    (run / "model.events.jsonl").unlink()
    train(run, resources=RESOURCES, **OPTIONS["plain"])
    assert (run / "model.events.jsonl").read_bytes() == (made("finished") / "model.events.jsonl").read_bytes()


@pytest.mark.long
def test_tables_of_an_earlier_time_are_brought_up(made, tmp_path):
    """The tables of before a training was finished: the same `train` fills them from the log."""
    run = shutil.copytree(made("finished"), tmp_path / "run")
    shutil.copy(run / "state.duckdb", tmp_path / "before.duckdb")
    train(run, resources=RESOURCES, **{**OPTIONS["plain"], "vocab_size": 295})
    Query(run, "SELECT 1").print("csv", io.StringIO())
    shutil.copy(tmp_path / "before.duckdb", run / "state.duckdb")
    with pytest.raises(StreambpeError, match=r"state\.duckdb is an older one"):
        Query(run, "SELECT 1").print("csv", io.StringIO())
    train(run, resources=RESOURCES, **{**OPTIONS["plain"], "vocab_size": 295})
    assert check(run, resources=RESOURCES) == []
    Query(run, "SELECT 1").print("csv", io.StringIO())
    assert rows(run, "SELECT count(*) FROM events WHERE seq IS NOT NULL") == [(295 - 256,)]


def test_a_lost_run_json_is_made_again(made, tmp_path):
    """`streambpe count RUN`, as the message says."""
    run = shutil.copytree(made("finished"), tmp_path / "run")
    number = json.loads((run / "run.json").read_text())["run"]
    (run / "run.json").unlink()
    with pytest.raises(StreambpeError, match=f"`streambpe count {run}` makes it again"):
        train(run, resources=RESOURCES, **OPTIONS["plain"])
    count(run, [], resources=RESOURCES)
    assert json.loads((run / "run.json").read_text())["run"] == number
    assert train(run, resources=RESOURCES, **OPTIONS["plain"]).skipped
    assert TrainConfig(**OPTIONS["plain"]).vocab_size == 290


@pytest.mark.long
def test_tables_that_break_while_they_are_filled_are_told(made, tmp_path):
    """A damaged state.duckdb is no shell that holds it: the training says so, and goes on when it is made again."""
    run = shutil.copytree(made("learning"), tmp_path / "run")

    def broken(*_: object, **__: object) -> None:
        raise RunError("state.duckdb cannot be opened: damaged")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streambpe.train.tables.Tables.try_fill", broken)
        with pytest.raises(RunError, match="cannot be opened: damaged"):
            resume(run)
    resume(run)
    assert (run / "model.events.jsonl").read_bytes() == (made("finished") / "model.events.jsonl").read_bytes()
    assert check(run, resources=RESOURCES) == []
