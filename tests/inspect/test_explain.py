"""`explain` shows the steps that encoding takes, and how a token came to be."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest
from click.testing import CliRunner

from streambpe.cli.main import main
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.explain import explain, find_rivals, quoted
from streambpe.model.eventlog import EventLog, Op, write_event_log
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import text_run
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


@pytest.mark.parametrize("kind", ["boundless", "uw"])
def test_rivals_of_superwords_are_left_out_and_why(kind, tmp_path):
    """Their pairs stand in documents; words of a model with superwords have theirs, but under uw."""
    run = text_run(tmp_path / "run", " ".join(DOCUMENTS[:20]))
    write_event_log(run / "model.events.jsonl", trained(kind))
    tokenizer = Tokenizer.load(run)
    events = trained(kind).events
    for event in (events[0], events[-1] if kind == "uw" else next(e for e in events if e.op is Op.SUPERMERGE)):
        found = explain(tokenizer, f"log:{event.id}", run=run)
        left_out = kind == "uw" or event.op is Op.SUPERMERGE
        assert bool(found.rivals) != left_out
        assert found.notes[-1].startswith("Rivals are left out: ") == left_out


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
