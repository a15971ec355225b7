"""Superwords from disk: equal to the slow reference, whatever the pruning, memory, batches and kills."""

from __future__ import annotations

import functools
import random
import re
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from streambpe import Tokenizer
from streambpe.config import TrainConfig
from streambpe.errors import ResumeMismatch, RunError, SourceError, Stopped, UsageError
from streambpe.model.alphabet import bytes_alphabet, gpt2_alphabet, utf8_alphabet
from streambpe.model.eventlog import Op
from streambpe.store.journal import Journal
from streambpe.text.eligible import find_superword_pattern, text_test
from streambpe.text.patterns import find_pattern
from streambpe.train.counting.count import count
from streambpe.train.engine.rules import EngineTuning
from streambpe.train.superwords import phase as superwords
from streambpe.train.superwords import stage2, sums, tasks
from tests import oracles
from tests.oracles.splits import split_text
from tests.oracles.tables import check
from tests.runs import SMALL, change, cli, ended, log_of, rows, small_blocks, trainer, view_rows
from tests.samples import prose_documents, written
from tests.tiers import seeds

ALPHABETS = {"hf": gpt2_alphabet, "kensho": utf8_alphabet, "rustbpe": bytes_alphabet}
# chunks that others spell together: "ab" before "!" or "x" is one chunk, elsewhere two
DOUBLE = r"(?s)ab(?=[!x])|ba(?=b)|[a-z]|."


def documents_run(run: Path, documents: list[str], pattern: str) -> Path:
    """A run that holds these documents, with their sequences. Each is a file of its own, which goes on from part to
    part where blocks are small; documents of an iterator never do."""
    texts = run.with_name(f"{run.name} texts")
    texts.mkdir(parents=True)
    for number, document in enumerate(documents):
        written(texts / f"{number:05}.txt", document)
    count(run, [str(texts)], pattern=pattern, sequences=True, resources=SMALL)
    return run


def random_options(rng: random.Random) -> dict:
    """Of any superwords, with many ties."""
    return {
        "forbid": rng.choice([None, None, "bb", "^a", ": "]),
        "ties": rng.choice(["ids", "bytes"]),
        "overlaps": rng.choice(["all", "disjoint"]),
        "min_frequency": rng.choice([1, 1, 2, 3]),
        "freq_cutoff": rng.choice([1, 1, 2]),
        "block_tokens": rng.choice([(), (), ("ab", "a!", " a", "a b", " the")]),
        "whole_characters": rng.random() < 0.3,
    }


def random_case(seed: int) -> tuple[list[str], str, dict]:
    """(documents, pattern, options) with many ties, few letters, and every option now and then."""
    rng = random.Random(seed)
    kind = rng.choice(["letters", "words", "double", "double", "alone"])  # alone: "ab" is a chunk, but in no run
    if kind == "words":
        words = [rng.choice(["a", "an", "the", "end", "en", "d", "of", "é", "日本"]) for _ in range(8)]
        gaps, pattern = [" ", "", " ", "-"], rng.choice(["boundless", "gpt2", r"(?s) ?[a-n]{1,2}| ?[o-z]|."])
    else:
        letters = "aabbc" if kind == "alone" else "abx!"
        words = ["".join(rng.choice(letters) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(2, 6))]
        gaps, pattern = (
            ["", "", " "],
            DOUBLE if kind in ("double", "alone") else rng.choice([r"(?s)[ab]{1,2}|.", r"(?s)\w?[ab]|."]),
        )
    size = rng.randint(10, 60)
    documents = [
        "".join(rng.choice(gaps) + rng.choice(words) for _ in range(rng.randint(0, size)))
        for _ in range(rng.randint(1, 12))
    ]
    if alone := kind == "alone":
        documents += ["ab!"] * rng.randint(5, 30)
    like = rng.choice(["hf", "hf", "kensho", "rustbpe"])
    base = len(ALPHABETS[like]())
    options = {
        **random_options(rng),
        "like": like,
        "vocab_size": base + rng.choice([rng.randint(1, 20), rng.randint(20, 60)]),
        "superwords": rng.choice(["boundless", "boundless", "superbpe"]),
        "superword_pattern": rng.choice(["simple", "simple", "^.$" if alone else "improved", "(?s)."]),
        "max_superword_words": rng.choice([2, 3] if alone else [None, None, 2, 3]),
        "stop_list": rng.choice([0, 0, 2]),
        **rng.choice([{}, {}, {"tau": "0.9"}, {"tau": "0.6", "delete_to": "walk"}, {"tau": "0.5"}, {"tau": "0.34"}]),
    }
    options["vocab_size"] += options["stop_list"]
    if options["superwords"] == "superbpe":
        options["transition"] = rng.randint(base + options["stop_list"], options["vocab_size"])
    return documents, pattern, options


def reference_events(documents: list[str], pattern: str, options: dict) -> list:
    """What the slow reference learns."""
    given = dict(options)
    alphabet = ALPHABETS[given.pop("like")]()
    split = functools.partial(split_text, find_pattern(pattern))
    if tau := given.pop("tau", None):
        given["deletions"] = oracles.Deletions.at(tau, given.pop("delete_to", "bytes"))
    if given.pop("whole_characters", False):
        given["may_merge"] = oracles.whole_characters_bytes
    chunks = [[chunk.encode() for chunk in split(document)] for document in documents]
    stop_words = oracles.choose_stop_words(oracles.count_chunks(chunks), given.pop("stop_list", 0), ties="bytes")
    training = oracles.train_boundless(
        chunks,
        alphabet,
        given.pop("vocab_size"),
        transition=given.pop("transition", None),
        superword_pattern=find_superword_pattern(given.pop("superword_pattern", "simple")),
        max_words=given.pop("max_superword_words", None),
        blocked=[token.encode() for token in given.pop("block_tokens", ())],
        stop_words=list(stop_words),
        **{key: value for key, value in given.items() if key != "superwords"},
    )
    return training.events


def learn(run: Path, options: dict, name: str = "main", **more) -> list:
    """The events that a training learns from a counted run."""
    config = TrainConfig.from_options(**options)
    result = trainer(run, config, name=name, **more).run()
    return list(log_of(run, "model" if name == "main" else name).events) if result else []


def learn_two_ways(run: Path, documents: list[str], options: dict, seed: int, wanted: list) -> None:
    """Learn as users do, and from disk, in tables, or one merge a pass; the tables add up, and documents come back."""
    assert learn(run, options) == wanted
    small = EngineTuning(force_scan=True, block_places=50, hot_pairs=16)
    tables = {"resources": replace(SMALL, learner="tables"), "tuning": EngineTuning(block_places=50, hot_pairs=16)}
    ways = [(options, {"tuning": small}), (options, tables), ({**options, "batch": "1"}, {})]
    other, how = ways[seed % 3]
    assert learn(run, other, "other", **how) == wanted
    assert check(run, resources=SMALL) == []
    tokenizer = Tokenizer(str(run))
    for document in documents:
        assert tokenizer.decode(tokenizer.encode_ordinary(document)) == document


def stored_runs(run: Path, name: str = "main") -> list[tuple[tuple[str, ...], int]]:
    """View superword_runs of a training, in the order of the table."""
    return [(tuple(chunks), n) for chunks, n in view_rows(run, "superword_runs", name)]


def in_small_pieces(patch: pytest.MonkeyPatch) -> None:
    """Documents in many parts; many tasks ask them, whose tables are full again and again; many sums of what these
    found."""
    small_blocks(patch, 64, ordered=False)
    patch.setattr(tasks, "MOST_PLACES", 30)
    patch.setattr(tasks.DocumentTasks, "table_bytes", lambda self, attempt: 1 << 10)
    patch.setattr(stage2, "_TAIL", 3)
    for name, value in (("_NEIGHBOUR_BYTES", 1 << 23), ("_FILES", 2), ("_RUN_BYTES", 1 << 24)):
        patch.setattr(sums, name, value)


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", seeds(30))
def test_equals_the_slow_reference(seed, tmp_path):
    """Ties, filters, cut-offs, vetoes, exhausted words: same events, and every table adds up."""
    documents, pattern, options = random_case(seed)
    if not "".join(documents):  # a few seeds draw nothing
        with pytest.raises(SourceError, match="hold no text"):
            documents_run(tmp_path / "run", documents, pattern)
        return
    with pytest.MonkeyPatch.context() as patch:
        if seed % 2 == 0:
            in_small_pieces(patch)
        run = documents_run(tmp_path / "n=5", documents, pattern)  # where Hive would read a column n of fives
        learn_two_ways(run, documents, options, seed, reference_events(documents, pattern, options))


@pytest.fixture(scope="module")
def prose() -> list[str]:
    """Documents that superwords are learned from."""
    return prose_documents()


PRUNED = [
    {"superwords": "boundless", "vocab_size": 1500},
    {"superwords": "superbpe", "vocab_size": 1300, "transition": 1200},
    {"superwords": "uw", "vocab_size": 1100, "transition": 900},
]


@pytest.mark.long
@pytest.mark.parametrize("mode", PRUNED, ids=str)
def test_pruning_cuts_and_changes_nothing(mode, prose, tmp_path, monkeypatch):
    """At least 30 % of the neighbours are cut, where phase one filled the vocabulary or by a threshold (which falls on
    the way in the case of uw); the events stay the same."""
    phases, made = [], superwords.SuperwordPhase.run
    monkeypatch.setattr(superwords.SuperwordPhase, "run", lambda self: phases.append(self) or made(self))
    monkeypatch.setattr(superwords, "_PAIRS_A_MERGE", 1)  # so that T falls
    run = documents_run(tmp_path / "run", prose, "boundless")
    cut = learn(run, mode, "cut")
    monkeypatch.setattr(superwords.SuperwordPhase, "_levels", lambda self: [1])
    assert cut == learn(run, mode, "uncut")
    if mode["superwords"] == "uw":
        assert sum(event.id >= mode["transition"] for event in cut) > 50
        assert 1 < phases[0].threshold < phases[0].levels[0]
        assert stored_runs(run, "cut") == []
    else:
        assert sum(event.op is Op.SUPERMERGE for event in cut) > 50
        kept, every = (sum(n for *_, n in view_rows(run, "superword_adjacency", name)) for name in ("cut", "uncut"))
        assert kept < 0.7 * every


def test_the_event_log_page_described_another_sum_of_documents(tmp_path):
    """What stands in the header is what the code of docs/event-log.md makes of the documents' chunks."""
    page = (Path(__file__).parents[2] / "docs/event-log.md").read_text(encoding="utf-8")
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.S) if "def documents_sum" in code)
    scope: dict = {}
    exec(code, scope)
    documents = ["the end of days", "", "the end", "a longer chunk: otorhinolaryngologically é日"] * 2
    run = documents_run(tmp_path / "run", documents, "boundless")
    learn(run, {"vocab_size": 260, "superwords": "boundless"})
    chunks = [[chunk.encode() for chunk in split_text(find_pattern("boundless"), text)] for text in documents]
    assert log_of(run).header.corpus["documents_sum"] == scope["documents_sum"](chunks)


@pytest.mark.long
@pytest.mark.parametrize(
    "mode", [{"superwords": "boundless", "tau": "0.6"}, {"superwords": "superbpe", "transition": 700}], ids=str
)
def test_superwords_are_journaled_behind_the_words(mode, prose, tmp_path, monkeypatch):
    """Stopped after some superwords: they are learned again and compared; a larger size ends as if it had never been
    stopped."""
    run, asked, add_pass = documents_run(tmp_path / "run", prose, "boundless"), threading.Event(), Journal.add_pass

    def stop_at_superwords(self, events, *more):
        add_pass(self, events, *more)
        if any(event.op is Op.SUPERMERGE for event in events):
            asked.set()

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add_pass", stop_at_superwords)
        with pytest.raises(Stopped):
            learn(run, {**mode, "vocab_size": 900}, "on", stop=asked)
    path = run / "on.pending.events"
    written, whole = path.read_bytes(), Journal.read(path)
    first = len(whole.words)
    assert 100 < first < len(whole.events)
    wrong = msgspec.structs.replace(whole.events[first], n=whole.events[first].n + 1)
    events = [*whole.events[:first], wrong, *whole.events[first + 1 :]]
    Journal.start(path, whole.training, events, whole.batches, whole.vetoes).save()
    with pytest.raises(RunError, match="come from other words"):
        learn(run, {**mode, "vocab_size": 900}, "on")
    path.write_bytes(written)
    assert learn(run, {**mode, "vocab_size": 1000}, "on") == learn(run, {**mode, "vocab_size": 1000}, "alone")
    assert stored_runs(run, "on") == stored_runs(run, "alone")
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_check_finds_wrong_neighbours_and_runs(prose, tmp_path):
    """A row changed, removed or added by hand is reported, also one of a chunk that is not there."""
    run = documents_run(tmp_path / "run", prose[:40], "boundless")
    learn(run, {"vocab_size": 500, "superwords": "superbpe", "transition": 490})
    assert len(stored_runs(run)) > 20
    state = (run / "state.duckdb").read_bytes()
    neighbours, numbers, chunks = "superword_neighbours", "superword_run_numbers", "superword_chunks"
    damages = [
        (f"INSERT INTO {neighbours} VALUES (1, 1000000, 5)", neighbours),
        (f"INSERT INTO {numbers} VALUES ([1, 1000000], 1)", numbers),
        (f"DELETE FROM {chunks} WHERE number = 1", chunks),
        (f"INSERT INTO {chunks} SELECT max(number) + 1, ' new' FROM {chunks}", chunks),
    ]
    for table in (neighbours, numbers):
        damages += [
            (f"UPDATE {table} SET n = n + 1 WHERE rowid = (SELECT min(rowid) FROM {table})", table),
            (f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) + 1 FROM {table})", table),
            (f"INSERT INTO {table} FROM {table} LIMIT 1", table),
        ]
    for damage, table in damages:
        (run / "state.duckdb").write_bytes(state)
        change(run, damage)
        found = {problem.table for problem in check(run, replay=True, resources=SMALL)}
        assert found == {f"main.{table}"}, damage


KILLS = [
    "neighbours-0-committed:2", "adjacency-filled", "adjacency-written", "runs-0-committed:2", "words-filled",
    "words-written", "events-committed:3", "log-written", "neighbours-published", "tables-filled", "tables-committed",
    "journal-removed",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "tau", "failpoints"),
    [
        ("boundless", None, KILLS[1::7]),
        ("boundless", "0.6", KILLS[::3]),
        ("superbpe", "0.6", KILLS[1::3]),
        ("uw", None, KILLS[:9:3]),
    ],
)
def test_a_kill_anywhere_changes_nothing(mode, tau, failpoints, prose, tmp_path):
    """Parts half cut anew, neighbours half counted, runs half grouped, supermerges half learned, a file damaged: the
    next run goes on to the same log."""
    source = written(tmp_path / "documents.txt", "\n".join(prose))
    whole = tmp_path / "whole"
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 1 << 14, ordered=False)
        count(whole, [str(source)], pattern="boundless", sequences=True, lines=True, resources=SMALL)
    run = shutil.copytree(whole, tmp_path / "killed")
    options = {"vocab_size": 1200, "superwords": mode, "transition": None if mode == "boundless" else 900, "tau": tau}

    def go(folder: Path, failpoint: str) -> int:
        return ended(failpoint, run=folder, options=options, file_places=2000)

    assert go(whole, "") == 0
    killed = []
    for failpoint in failpoints:
        killed.append(go(run, failpoint))
        assert check(run, resources=SMALL) == [], failpoint
        for file in [*(run / "training").rglob("neighbours*.parquet"), *(run / "training").rglob("runs-*.parquet")][:1]:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 4  # what is damaged is made again
            file.write_bytes(content)
    assert killed.count(-signal.SIGKILL) >= len(failpoints) - 1, killed
    assert go(run, "") == 0
    assert (run / "model.events.jsonl").read_bytes() == (whole / "model.events.jsonl").read_bytes()
    assert check(run, resources=SMALL) == []
    assert not list((run / "training").glob("*"))
    assert stored_runs(run) == stored_runs(whole)
    assert (stored_runs(run) != []) == (mode != "uw")


def test_train_counts_with_sequences_by_itself_or_says_what_to_do(tmp_path):
    """`train --superwords` stores the documents; a run without them, or a count table, is refused."""
    source = written(tmp_path / "text.txt", "the end of the day and the end of the line\n" * 30)
    run = tmp_path / "run"
    arguments = ("--pattern", "boundless", "--superwords", "boundless", "--vocab-size", "290", "--memory", "400MB")
    cli("train", run, source, "--lines", *arguments)
    supermerges = sum(event.op is Op.SUPERMERGE for event in log_of(run).events)
    assert rows(run, "SELECT count(*) FROM superwords") == [(supermerges,)] != [(0,)]
    assert rows(run, "FROM superword_candidates LIMIT 1")[0] in rows(run, "FROM superword_adjacency")
    cli("check", run)
    bare = tmp_path / "bare"
    cli("count", bare, source, "--lines", "--pattern", "boundless", "--memory", "400MB")
    assert "--sequences" in cli("train", bare, *arguments, expect=2).stderr
    assert "sequences" in cli("train", bare, source, "--lines", *arguments, expect=2).stderr
    refused = cli("train", run, source, "--no-sequences", *arguments, "--name", "other", expect=2)
    assert "--no-sequences" in refused.stderr


@pytest.mark.long
def test_a_run_of_a_million_chunks_and_no_neighbours(tmp_path):
    """The one is held whole, in whatever ranges runs are added up; of the other nothing is."""
    for name, documents in (("long", ["ab" * 500_000, "ab a"]), ("none", ["a", "b"])):
        run = documents_run(tmp_path / name, documents, "(?s).")
        learn(run, {"vocab_size": 259, "superwords": "superbpe", "transition": 256, "superword_pattern": "(?s)."})
        assert check(run, resources=SMALL) == []
        assert max((len(chunks) for chunks, _ in stored_runs(run)), default=0) == (1_000_000 if name == "long" else 0)


def test_a_pattern_of_superwords_is_bounded_as_any_other(monkeypatch):
    """It went on for years on one chunk, or took all memory to compile."""
    monkeypatch.setattr("streambpe.text.eligible.DOCUMENT_SECONDS", 0.05)
    with pytest.raises(UsageError, match=r"--forbid .* takes more than 0.05 s on one chunk of 41 bytes"):
        text_test(r"^(a|aa)+$", "--forbid")(b"a" * 40 + b"b")
    with pytest.raises(UsageError, match="too large a repetition"):
        text_test("((a{9999}){9999}){9999}", "--superword-pattern")


def test_patterns_end_at_the_end_of_the_text():
    """`$` never matches before a last line break; in a class or escaped it is itself."""
    assert find_superword_pattern(r"^a$") == r"^a\Z"
    assert find_superword_pattern(r"[$]\$[^]$]$") == r"[$]\$[^]$]\Z"
    assert not text_test("the$", "--forbid")(b"the\n")
    assert text_test("improved", "--superword-pattern")(b" the")
    assert not text_test("improved", "--superword-pattern")(b"the\n")
    assert not text_test("simple", "--superword-pattern")(b"\xff")


@pytest.mark.long
def test_smaller_vocabularies_can_be_cut(prose, tmp_path):
    """A log of 1200 ids cut at 900 is what is learned at 900; the same training goes on from 900 to 1200."""
    run = documents_run(tmp_path / "run", prose, "boundless")
    for mode in ({"superwords": "boundless"}, {"superwords": "superbpe", "transition": 700}):
        name = mode["superwords"]
        small = learn(run, {**mode, "vocab_size": 900}, name)
        assert learn(run, {**mode, "vocab_size": 1200}, f"{name}_large")[: len(small)] == small
        learn(run, {**mode, "vocab_size": 1200}, name)
        assert log_of(run, name).events == log_of(run, f"{name}_large").events
        with pytest.raises(ResumeMismatch, match="vocab-size"):
            learn(run, {**mode, "vocab_size": 800}, name)
    assert check(run, resources=SMALL) == []
