"""`explain` shows the steps that encoding takes, and how a token came to be."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

from streambpe.cli.main import main
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.explain import explain, find_rivals, quoted
from streambpe.inspect.rivals import symbols_of
from streambpe.model.eventlog import EventLog, Op, write_event_log
from streambpe.model.replay import merge
from streambpe.store.sequences import SequencePart
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import train
from streambpe.train.counting import sizes
from streambpe.train.counting.count import count
from streambpe.train.superwords.neighbours import PartsReader
from tests.oracles import text_matches
from tests.oracles.superwords import IMPROVED
from tests.runs import log_of, text_run
from tests.train import test_superwords, test_uw
from tests.train.test_superwords import documents_run, learn
from tests.trained import DOCUMENTS, HOSTILE, KINDS, trained


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_end_where_encoding_ends(kind):
    """Per chunk the last row's tokens, after supermerges, are the tokens that encoding gives."""
    tokenizer = Tokenizer(trained(kind))
    for text in [*DOCUMENTS[:5], HOSTILE[4], HOSTILE[8]]:
        found = explain(tokenizer, text, as_text=True)
        assert str(tokenizer.encode_ordinary(text)) in found.about
        for before, row in zip(found.rows, found.rows[1:], strict=False):
            if row["step"] and not row["chunk"].startswith("(across"):
                assert row["step"] == before["step"] + 1
                assert row["event"] > (before["event"] if before["event"] is not None else -1)


def test_a_text_shows_each_step():
    """The rows of a small text, as a reader sees them."""
    tokenizer = Tokenizer(trained("plain"))
    found = explain(tokenizer, " the", as_text=True)
    assert found.rows[0]["tokens"] == ['" "', '"t"', '"h"', '"e"']
    assert found.rows[-1]["tokens"] == ['" the"']
    assert all(row["did"].startswith("merge ") for row in found.rows[1:])


def test_a_token_shows_its_path_and_its_end():
    """Every event on the way from base symbols, with counts; a deleted token says when it went."""
    tokenizer = Tokenizer(trained("plain"))
    found = explain(tokenizer, " the")
    assert found.rows[-1]["makes"] == '" the"'
    assert all(row["n"] > 0 for row in found.rows)
    assert "event log alone" in found.notes[-1]
    picky = Tokenizer(trained("picky"))
    model = picky.encoder.model
    dead = next(e.id for e in model.events if e.op is Op.DELETE and e.id not in model.model_id)
    gone = explain(picky, f"log:{dead}")
    assert "deleted, no id" in gone.about
    assert any(note.startswith("Deleted at event") for note in gone.notes)
    assert explain(tokenizer, "id:3").about.startswith('"')
    assert "base symbol" in explain(tokenizer, "a").notes[0]


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "options",
    [
        {"freq_cutoff": 3, "stop_list": 4},
        {"ties": "bytes", "alphabet": "gpt2"},
        {"block_tokens": ("th", "he", "in"), "max_token_length": 3},
        {"whole_characters": True, "overlaps": "disjoint"},
    ],
    ids=str,
)
def test_what_was_learned_was_its_own_best_rival(options, tmp_path):
    """Whatever the rules of a training were: just before each merge its own pair stands first, by its own count."""
    corpus, run = tmp_path / "a.jsonl", tmp_path / "run"
    corpus.write_text("".join(json.dumps({"text": document}) + "\n" for document in DOCUMENTS))
    train(run, [str(corpus)], vocab_size=460, **options)
    tokenizer = Tokenizer.load(run)
    encoder = tokenizer.encoder
    spelled = [quoted(encoder.codec.text_bytes(encoder.model.content(i), "name")) for i in range(encoder.n_log)]
    events = encoder.model.events
    assert len(events) > 40
    for index in [*range(0, len(events), 7), len(events) - 1]:
        left, right = events[index].pair
        rivals = find_rivals(encoder, run, index)
        assert rivals[0] == {"left": spelled[left], "right": spelled[right], "n": events[index].n}, index
        assert len(rivals) <= 5


def test_rivals_are_counted_some_chunks_at_a_time_beside_the_run(tmp_path, monkeypatch):
    """All chunks were held at once, 40 bytes per symbol, and a copy of their counts lay in /tmp, which may be RAM."""
    run = text_run(tmp_path / "run", " ".join(DOCUMENTS))
    train(run, vocab_size=400)
    encoder = Tokenizer.load(run).encoder
    found = [find_rivals(encoder, run, index) for index in (3, 99)]
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    monkeypatch.setattr("streambpe.inspect.explain._RANGE_BYTES", 64)
    assert [find_rivals(encoder, run, index) for index in (3, 99)] == found
    assert found[1][0]["n"] == encoder.model.events[99].n
    assert not list(run.glob("*.tmp"))


@pytest.mark.long
def test_rivals_are_the_counts_of_that_moment(tmp_path):
    """With a RUN the pairs next in line are counted anew; the first one is the pair that was chosen, by its n."""
    corpus = tmp_path / "a.jsonl"
    corpus.write_text("".join(json.dumps({"text": document}) + "\n" for document in DOCUMENTS))
    run = tmp_path / "run"
    count(run, [str(corpus)], options={"pattern": "gpt4o"})
    write_event_log(run / "model.events.jsonl", trained("plain"))
    tokenizer = Tokenizer.load(run)
    for index in (0, 5, 60, 200):
        event = tokenizer.encoder.model.events[index]
        rivals = find_rivals(tokenizer.encoder, run, index)
        assert rivals[0]["n"] == event.n
        assert [rival["n"] for rival in rivals] == sorted((rival["n"] for rival in rivals), reverse=True)
        log = trained("plain")
        encode = Tokenizer(EventLog(log.header, log.events[:index])).encoder.encode_chunk
        chunks = (chunk for document in DOCUMENTS for chunk in tokenizer.encoder.split(document))
        pairs = Counter(pair for chunk in chunks for pair in itertools.pairwise(encode(chunk)))
        assert rivals[0]["n"] == pairs.most_common(1)[0][1]
    shown = CliRunner().invoke(main, ["explain", str(run), " the"])
    assert shown.exit_code == 0, shown.output
    assert "The most frequent pairs just before:" in shown.stdout


SPLIT = {"boundless": "boundless", "superbpe": "boundless", "uw": "superbpe2"}  # what joins is cut by
TRAININGS = [
    {"superwords": "boundless", "vocab_size": 360},
    {"superwords": "superbpe", "vocab_size": 360, "transition": 330},
    {"superwords": "uw", "vocab_size": 360, "transition": 330},
    {"superwords": "boundless", "vocab_size": 360, "like": "kensho", "max_superword_words": 2, "tau": "0.8"},
    {"superwords": "superbpe", "vocab_size": 360, "transition": 320, "forbid": "^ the", "ties": "bytes"},
    {"superwords": "uw", "vocab_size": 360, "transition": 320, "forbid": "^ the", "overlaps": "disjoint"},
]


def counted_in_memory(log, words, documents, index):
    """The five best pairs before an event, by a Counter over documents in memory. words: phase one, all of it."""
    config = log.header.config
    content = Tokenizer(log).encoder.model.content
    split = find_pattern(SPLIT[config["superwords"]], gaps="keep").split
    before = [event for event in log.events[:index] if event.op is not Op.DELETE]
    if config["superwords"] == "uw":
        joins = before
        runs = [[bytes([byte]) for byte in chunk.encode()] for document in documents for chunk in split(document)]
    else:
        joins = [event for event in before if event.op is Op.SUPERMERGE]
        encode = cache(Tokenizer(words).encoder.encode_chunk)
        matches = text_matches({"improved": IMPROVED, "simple": r"\p{L}"}[config["superword_pattern"]])
        runs = []
        for document in documents:
            for takes_part, run in itertools.groupby(
                split(document), lambda chunk: len(encode(chunk)) == 1 and matches(chunk.encode())
            ):
                runs += [[chunk.encode() for chunk in run]] if takes_part else []
    size = Counter()
    for event in joins:
        left, right = map(content, event.pair)
        size.setdefault(left + right, (size[left] or 1) + (size[right] or 1))
        runs = [merge(run, (left, right), left + right) for run in runs]
    pairs = Counter()
    for run in runs:
        for pair, same in itertools.groupby(itertools.pairwise(run)):
            n = len(list(same))
            pairs[pair] += (n + 1) // 2 if config["overlaps"] == "disjoint" and pair[0] == pair[1] else n
    symbols = Tokenizer(log).encoder.model.alphabet.symbols
    phase = Tokenizer(words).encoder.model
    order = [*symbols, *(content(event.id) for event in before), *(phase.content(e.id) for e in words.events)]
    if config["ties"] == "bytes":
        order.sort()
    place = {token: i for i, token in reversed(list(enumerate(order)))}
    most = config["max_superword_words"] or 1 << 30
    refused = text_matches(config["forbid"] or "(?!)")
    ranked = sorted(pairs, key=lambda pair: (-pairs[pair], place[pair[0]], place[pair[1]]))
    allowed = [p for p in ranked if (size[p[0]] or 1) + (size[p[1]] or 1) <= most and not refused(p[0] + p[1])]
    return [(quoted(left), quoted(right), pairs[left, right]) for left, right in allowed[:5]]


@pytest.mark.long
@pytest.mark.parametrize("options", TRAININGS)
def test_rivals_of_superwords_are_counted_in_the_documents(options, tmp_path):
    """Every superword is the best pair just before its event, by its count; those behind it are counted in memory."""
    run = documents_run(tmp_path / "run", DOCUMENTS, "superbpe1" if options["superwords"] == "uw" else "boundless")
    learn(run, options, "joined")
    alone = {key: options[key] for key in ("like", "tau", "ties") if key in options}
    learn(run, {"vocab_size": options.get("transition", options["vocab_size"]), **alone}, "words")
    log, words = log_of(run, "joined"), log_of(run, "words")
    encoder = Tokenizer.load(f"{run}:joined").encoder
    first = options["transition"] - 256 if options["superwords"] == "uw" else 0
    joined = [i for i, e in enumerate(log.events) if i >= first and (first or e.op is Op.SUPERMERGE)]
    assert len(joined) > 10
    for i in joined:
        event = log.events[i]
        rivals = [tuple(rival.values()) for rival in find_rivals(encoder, run, i)]
        assert rivals[0] == (*(quoted(encoder.model.content(part)) for part in event.pair), event.n)
        if i in joined[::12]:
            assert rivals == counted_in_memory(log, words, DOCUMENTS, i)
    shown_rivals = CliRunner().invoke(main, ["explain", f"{run}:joined", f"log:{log.events[joined[0]].id}"])
    assert shown_rivals.exit_code == 0, shown_rivals.output
    assert "The most frequent pairs just before:" in shown_rivals.stdout


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("cases", [test_superwords, test_uw])
def test_a_superword_is_its_own_first_rival(cases, seed, tmp_path):
    """Whatever the options: filters, ties, deletions, superwords that spell other chunks."""
    documents, pattern, options = cases.random_case(seed)
    run = documents_run(tmp_path / "run", documents, pattern)
    events = learn(run, options)
    encoder = Tokenizer.load(run).encoder
    words = options["transition"] - len(encoder.model.alphabet) if options["superwords"] == "uw" else len(events)
    for i, event in enumerate(events):
        if event.op is Op.SUPERMERGE or i >= words:
            best = find_rivals(encoder, run, i)[0]
            assert list(best.values()) == [*(quoted(encoder.model.content(part)) for part in event.pair), event.n]


@pytest.mark.long
def test_rivals_know_the_words_that_found_no_place(tmp_path):
    """Chunks join that are one token by the whole of phase one, also where the model has no such token."""
    run = documents_run(tmp_path / "run", [" aa bb"] * 5 + [" cc dd"] * 3, "boundless")
    events = learn(run, {"vocab_size": 256 + 8, "superwords": "boundless"})
    tokenizer = Tokenizer.load(run)
    assert [event.op for event in events] == [*[Op.MERGE] * 4, Op.SUPERMERGE, *[Op.MERGE] * 3]
    assert len(tokenizer.encode(" dd")) > 1
    found = [tuple(rival.values()) for rival in find_rivals(tokenizer.encoder, run, 4)]
    assert found == [('" aa"', '" bb"', 5), ('" cc"', '" dd"', 3)]


@pytest.mark.long
def test_superwords_go_on_over_the_border_of_two_parts(tmp_path, monkeypatch):
    """Small blocks cut a file into many parts: the rivals are those of whole documents."""
    text = ("the end of the day in the middle of the night and " * 3 + "\n") * 400
    source = tmp_path / "text.txt"
    source.write_text(text)
    whole, parts = documents_run(tmp_path / "whole", [text], "boundless"), tmp_path / "parts"
    monkeypatch.setattr(sizes, "MOST_BLOCK", 1 << 13)
    monkeypatch.setattr(sizes, "LEAST_BLOCK", 1 << 13)
    monkeypatch.setattr(sizes, "MOST_ORDERED", 0)  # a part for each block
    count(parts, [str(source)], options={"pattern": "boundless", "sequences": True})
    assert len(list((parts / "sequences").glob("*.chunks.parquet"))) > 5
    options = {"vocab_size": 290, "superwords": "boundless", "superword_pattern": "(?s)."}  # nothing ends a run
    events = learn(whole, options)
    assert learn(parts, options) == events
    index = max(i for i, event in enumerate(events) if event.op is Op.SUPERMERGE)
    found = [find_rivals(Tokenizer.load(run).encoder, run, index) for run in (whole, parts)]
    assert found[0] == found[1]
    assert found[0][0]["n"] == events[index].n
    assert len(found[0]) == 5


def test_a_run_of_chunks_ends_with_its_source():
    """Symbols go on in the part that follows, and only there."""

    class Parts(PartsReader):
        parts = (SequencePart("a", 2, False), SequencePart("b", 2, False), SequencePart("c", 2, True))

        def read(self, part):
            return np.array([1, 2], np.int32)

    together = np.concatenate(list(symbols_of(Parts())))
    assert together.tolist() == [-1, 1, 2, -1, 1, 2, 1, 2]


@pytest.mark.long
def test_rivals_that_cannot_be_counted_are_left_out_and_why(tmp_path):
    """A superword in a run that was counted without documents, or that has no tables of its training."""
    run = documents_run(tmp_path / "run", DOCUMENTS[:20], "boundless")
    events = learn(run, {"vocab_size": 320, "superwords": "superbpe", "transition": 310})
    token = f"log:{events[-1].id}"
    assert explain(Tokenizer.load(run), token, run=run).rivals
    other = tmp_path / "other"
    (tmp_path / "a.txt").write_text(DOCUMENTS[0])
    count(other, [str(tmp_path / "a.txt")], options={"pattern": "boundless"})
    (other / "model.events.jsonl").write_bytes((run / "model.events.jsonl").read_bytes())
    found = explain(Tokenizer.load(other), token, run=other)
    assert (found.rivals, found.notes[-1]) == ([], f"Rivals are left out. {other} has no tables of the training that "
                                               "made this model, which say what its words were.")  # fmt: skip
    for file in (run / "sequences").iterdir():
        file.unlink()
    found = explain(Tokenizer.load(run), token, run=run)
    assert found.rivals == []
    assert "it was counted without --sequences" in found.notes[-1]


def test_the_command_tells_tokens_from_texts(tmp_path):
    """A token if it is one, else a text; --token and --text settle it; --json is the same as data."""
    log = tmp_path / "m.jsonl"
    write_event_log(log, trained("boundless"))
    text = CliRunner().invoke(main, ["explain", str(log), "the end of the day"])
    assert text.exit_code == 0, text.output
    assert "(across chunks)" in text.stdout
    data = json.loads(CliRunner().invoke(main, ["explain", str(log), "--json", "--text", " the"]).stdout)
    assert data["rows"][0]["did"] == "base symbols"
    none = CliRunner().invoke(main, ["explain", str(log), "--token", "no such token"])
    assert (none.exit_code, "never had a token" in none.stderr) == (2, True)
    tokenizer = Tokenizer(trained("boundless"))
    with pytest.raises(UsageError, match="is a special token"):
        explain(tokenizer, "<|endoftext|>", as_text=False)
    with pytest.raises(UsageError, match="was given, not learned"):
        explain(tokenizer, f"id:{tokenizer.eot_token}")
