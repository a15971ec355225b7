"""`check` finds every wrong row in the tables of a training, and nothing where all is right."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from streambpe.inspect import recount
from streambpe.inspect.check import check
from streambpe.model.alphabet import bytes_alphabet
from streambpe.model.eventlog import EventLog, Header, Op, write_event_log
from streambpe.model.events import event_line
from streambpe.model.replay import Model
from streambpe.resources import Resources
from streambpe.store.identity import accept
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from streambpe.train.engine.rules import EngineTuning
from streambpe.train.trainer import Trainer
from tests import oracles
from tests.runs import SMALL, counted_run, log_of, rows, text_run
from tests.samples import natural_text
from tests.tiers import long, seeds

DAMAGE = {
    "events": [
        "UPDATE events SET n = n + 1 WHERE seq = 5",
        "UPDATE events SET left_id = left_id + 1 WHERE seq = 0",
        "UPDATE events SET op = 'supermerge' WHERE seq = 7",
        "DELETE FROM events WHERE seq = 3",
        "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
        "INSERT INTO events SELECT max(seq) + 1, 'merge', 0, 1, max(id) + 1, 1, NULL FROM events",
    ],
    "tokens": [
        "UPDATE tokens SET bytes = 'x'::BLOB WHERE id = 300",
        "UPDATE tokens SET kind = 'base' WHERE kind = 'stop word'",
        "UPDATE tokens SET born = born + 1 WHERE id = 300",
        "UPDATE tokens SET died = 9 WHERE id = 300",
        "DELETE FROM tokens WHERE id = 0",
        "DELETE FROM tokens WHERE id = (SELECT max(id) FROM tokens)",
        "INSERT INTO tokens SELECT max(id) + 1, 'zz'::BLOB, 'learned', 3, NULL FROM tokens",
    ],
    "pair_counts": [
        "UPDATE pair_counts SET n = n + 1 WHERE rowid = 0",
        "UPDATE pair_counts SET right_id = right_id + 1 WHERE rowid = 3",
        "DELETE FROM pair_counts WHERE rowid = 2",
        "INSERT INTO pair_counts VALUES (1, 2, 1000)",
        "INSERT INTO pair_counts SELECT * FROM pair_counts LIMIT 1",
    ],
    "token_counts": [
        "UPDATE token_counts SET n = n + 1 WHERE id = 7",
        "UPDATE token_counts SET alone = alone + 1 WHERE id = (SELECT max(id) FROM token_counts)",
        "DELETE FROM token_counts WHERE rowid = 0",
        "INSERT INTO token_counts VALUES (100000, 1, 0)",
    ],
    "batches": [
        "UPDATE batches SET events = events + 1 WHERE batch = 1",
        "UPDATE batches SET first_seq = first_seq + 1 WHERE batch = 2",
        "UPDATE batches SET batch = batch + 1000 WHERE batch = 0",
        "DELETE FROM batches WHERE batch = 0",
        "DELETE FROM batches WHERE batch = (SELECT max(batch) FROM batches)",
        "INSERT INTO batches SELECT * REPLACE (batch + 1 AS batch, first_seq + events AS first_seq, 0 AS events) "
        "FROM batches ORDER BY batch DESC LIMIT 1",
    ],
    "vetoed": [
        "UPDATE vetoed SET n = n + 1",
        "UPDATE vetoed SET left_id = left_id + 1",
        "UPDATE vetoed SET seq = seq + 100",
        "DELETE FROM vetoed WHERE rowid = 0",
        "INSERT INTO vetoed VALUES (0, 1, 2, 3)",
        "INSERT INTO vetoed SELECT * FROM vetoed LIMIT 1",
    ],
    "facts": [
        "UPDATE facts SET value = '7' WHERE key = 'size'",
        "UPDATE facts SET value = replace(value, 'a', 'b') WHERE key = 'sha256'",
        "UPDATE facts SET value = 'unfinished' WHERE key = 'state'",
        "UPDATE facts SET value = replace(value, 'disjoint', 'all') WHERE key = 'config'",
        "UPDATE facts SET value = '5' WHERE key = 'pair_counts_at'",
        "DELETE FROM facts WHERE key = 'reached'",
        "DELETE FROM facts WHERE key = 'pair_floor'",
        "DELETE FROM facts WHERE key = 'journal'",
        "INSERT INTO facts VALUES ('note', 'mine')",
    ],
}

LEARNED = ("pair_counts", "token_counts", "vetoed")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Two trainings in a run, one with stop words, vetoes and a long tail of pairs."""
    run = text_run(tmp_path_factory.mktemp("check") / "run", natural_text(5, 60_000))
    train(run, vocab_size=400, resources=SMALL)
    options = {
        "overlaps": "disjoint",
        "stop_list": 2,
        "freq_cutoff": 2,
        "block_tokens": ("an", " s"),
        "vocab_size": 700,
    }
    train(run, name="other", resources=SMALL, **options)
    assert check(run, resources=SMALL) == []
    assert len(rows(run, "FROM other.vetoed")) >= 2
    assert len(rows(run, "FROM other.pair_counts")) > 500
    return run


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("table", "statement"),
    [(table, s) if place == 0 else long(table, s) for table in DAMAGE for place, s in enumerate(DAMAGE[table])],
)
def test_every_wrong_row_of_a_table_is_found(trained, tmp_path, table, statement):
    """A row that is changed, deleted or added is found, in the right training, and nothing else is."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("SET schema = 'other'")
        before = con.sql(f"FROM {table}").fetchall()
        con.execute(statement)
        assert con.sql(f"FROM {table}").fetchall() != before, "the statement changes something"
    problems = {problem.table for problem in check(run, resources=SMALL)}
    assert f"other.{table}" in problems
    # tables that are judged by the damaged one may differ too
    judged_by_it = ("facts", "vetoed", "pair_counts", "token_counts")
    assert problems <= {f"other.{name}" for name in (table, *judged_by_it)}


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("table", "statement"),
    [
        (table, statement) if place == 0 else long(table, statement)
        for table in LEARNED
        for place, statement in enumerate(DAMAGE[table])
    ],
)
def test_learning_again_finds_every_wrong_row_of_what_was_counted(trained, tmp_path, table, statement):
    """Pairs, token counts and vetoes follow from the counts: `check --replay` learns them again."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("SET schema = 'other'")
        con.execute(statement)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    problems = {problem.table for problem in check(run, replay=True, resources=SMALL)}
    assert f"other.{table}" in problems
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_an_event_that_these_counts_do_not_give_is_named(trained, tmp_path):
    """Log, digests and tables agree, and the counts lead elsewhere: the first event that differs is told by its number,
    with what stands there and what should."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    assert check(run, replay=True, resources=SMALL) == []
    log = log_of(run)
    wrong = replace(log.events[5], n=log.events[5].n + 1)
    sha256 = write_event_log(run / "model.events.jsonl", replace(log, events=[*log.events[:5], wrong, *log.events[6:]]))
    accept(run / "model.events.jsonl")
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("UPDATE main.events SET n = n + 1 WHERE seq = 5")
        con.execute("UPDATE main.facts SET value = ? WHERE key = 'sha256'", [sha256])
    problems = [problem for problem in check(run, replay=True, resources=SMALL) if problem.table == "main.events"]
    lines = [event_line(event).decode().strip() for event in (wrong, log.events[5])]
    assert problems[0].what == (5, *lines)
    assert problems[0] in check(run, replay=True, resources=Resources.from_options(temp_dir=tmp_path))
    assert not list(tmp_path.glob("sql-*"))


def test_a_training_that_cannot_be_learned_again_is_told(trained, tmp_path):
    """Of other counts than there are now: no silence, and no difference either."""
    documents = tmp_path / "documents.txt"
    documents.write_text(natural_text(3, 8_000))
    shutil.copytree(trained, tmp_path / "more")
    count(tmp_path / "more", [str(documents)], options={"pattern": "gpt4"}, resources=SMALL)
    told = []
    assert check(tmp_path / "more", replay=True, resources=SMALL, told=told) == []
    assert [sentence.partition(" was learned from other counts")[0] for sentence in told] == [
        "training main", "training other",
    ]  # fmt: skip


def test_the_main_training_is_checked_too(trained, tmp_path):
    """A wrong row of `main` is found there and not in `other`."""
    state = trained / "state.duckdb"
    shutil.copy(state, tmp_path / "kept")
    with duckdb.connect(str(state)) as con:
        con.execute("UPDATE main.pair_counts SET n = n - 1 WHERE rowid = 0")
    problems = check(trained, resources=SMALL)
    shutil.copy(tmp_path / "kept", state)
    assert [problem.table for problem in problems] == ["main.pair_counts"]


@pytest.mark.long
def test_a_changed_event_log_is_found(trained, tmp_path):
    """A line changed by hand, a log that is gone, and a log whose tables are gone are each named."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    log = run / "other.events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"n":', b'"n":1', 1))
    assert [problem.table for problem in check(run, resources=SMALL)] == ["other.events"]
    log.unlink()
    assert [problem.table for problem in check(run, resources=SMALL)] == ["other.events"]
    log.write_bytes(whole)
    log.rename(run / "third.events.jsonl")
    assert {problem.table for problem in check(run, resources=SMALL)} == {"other.events", "third.events"}


@pytest.mark.long
def test_damaged_tables_are_made_anew(trained, tmp_path):
    """What `check` advises works: remove the event log, train again, and everything adds up."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    whole = (run / "model.events.jsonl").read_bytes()
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("DELETE FROM main.events WHERE seq < 10")
        con.execute("UPDATE main.batches SET events = 0")
    assert check(run, resources=SMALL) != []
    (run / "model.events.jsonl").unlink()
    train(run, vocab_size=400, resources=SMALL)
    assert (run / "model.events.jsonl").read_bytes() == whole
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_an_older_training_is_checked_against_its_log(trained, tmp_path):
    """After sources were added, tokens and events are still judged; pairs of the old counts can not be."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    more = tmp_path / "more.txt"
    more.write_text("entirely new words")
    count(run, [str(more)], resources=SMALL)
    assert check(run, resources=SMALL) == []
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("DELETE FROM other.tokens WHERE id = 300")
    assert [problem.table for problem in check(run, resources=SMALL)] == ["other.tokens"]


@pytest.mark.parametrize("longest", [3, 2048])
@pytest.mark.parametrize("overlaps", ["all", "disjoint"])
def test_the_recount_is_the_references(monkeypatch, overlaps, longest):
    """Words encoded side by side, long ones by the core, are those of the replay of the log, also before its end; their
    pairs are counted by definition, and every merge finds what it was chosen by."""
    monkeypatch.setattr(recount, "_SYMBOLS", 40)
    monkeypatch.setattr(recount, "_LONG", longest)
    for seed in seeds(60):
        rng = random.Random(seed)
        words = {bytes(rng.choices(b"abc", k=rng.randint(1, 12))): rng.randint(1, 5) for _ in range(12)}
        deletions = oracles.Deletions(Fraction(6, 10)) if seed % 2 else None
        size = 256 + rng.randint(0, 12)
        events = oracles.train_words(words, bytes_alphabet(), size, overlaps=overlaps, deletions=deletions).events
        flat = np.frombuffer(b"".join(words), np.uint8).astype(np.int64)
        sizes, weights = np.array([len(word) for word in words]), np.array(list(words.values()))
        replay, deletes = recount.Replay(events), any(event.op is Op.DELETE for event in events)
        for before in (None, rng.randint(0, len(events))):
            made = None if deletes else recount.Made(*np.zeros((2, len(events)), np.int64), weights)
            model = Model(EventLog(Header(bytes_alphabet().to_header()), tuple(events[:before])))
            expected: Counter[tuple[int, int]] = Counter()
            found: Counter[tuple[int, int]] = Counter()
            for word, n in words.items():
                for pair in oracles.count_pairs(model.encode_chunk(word), overlaps):
                    expected[pair] += n
            for encoded, whose in recount.encode_words(replay, flat, sizes, before, made):
                for i in np.unique(whose):
                    assert encoded[whose == i].tolist() == model.encode_chunk(list(words)[i])
                frame = recount.pair_counts(encoded, whose, weights, disjoint=overlaps == "disjoint")
                for left, right, n in frame.iter_rows():
                    found[left, right] += n
            assert found == expected, (seed, before)
            if made is not None:
                chosen_by = made.merges if overlaps == "disjoint" else made.pairs
                assert chosen_by[:before].tolist() == [event.n for event in events[:before]]


@pytest.mark.long
def test_an_unfinished_training_is_checked(tmp_path):
    """Stopped half-way, its tables are judged by the journal; a row that differs is found."""
    run = counted_run(tmp_path / "run", {"abcabcd": 4, "abdcc": 3, "bcbcbd": 2})

    class Enough(Exception):
        pass

    passes = []

    def on_batch(batch):
        passes.append(batch)
        if len(passes) == 3:
            raise Enough

    trainer = Trainer(run, resources=SMALL, on_batch=on_batch, checkpoint_seconds=0, tuning=EngineTuning(candidates=1))
    with pytest.raises(Enough):
        trainer.run()
    assert rows(run, "SELECT count(*) FROM events") == [(2,)]
    assert check(run, resources=SMALL) == []
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("UPDATE events SET n = n + 1 WHERE seq = 1")
    assert {problem.table for problem in check(run, resources=SMALL)} == {"main.events"}
