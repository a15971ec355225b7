"""`explain` shows the steps that encoding takes, and how a token came to be."""

from __future__ import annotations

import json

import pytest

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.explain import explain
from streambpe.model.eventlog import Op, write_event_log
from tests.runs import cli
from tests.trained import DOCUMENTS, HOSTILE, KINDS, trained


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_end_where_encoding_ends(kind):
    """Per chunk the last row's tokens, after supermerges, are the tokens that encoding gives."""
    tokenizer = Tokenizer(trained(kind))
    for text in [*DOCUMENTS[:5], HOSTILE[4], HOSTILE[8]]:
        found = explain(tokenizer, text, token=False)
        assert str(tokenizer.encode_ordinary(text)) in found.about
        for before, row in zip(found.rows, found.rows[1:], strict=False):
            if row["step"] and not row["chunk"].startswith("(across"):
                assert row["step"] == before["step"] + 1
                assert row["event"] > (before["event"] if before["event"] is not None else -1)


def test_a_token_shows_its_path_and_its_end():
    """As a text each step of encoding; as a token every event on the way from base symbols, with counts; a deleted
    token says when it went."""
    tokenizer = Tokenizer(trained("plain"))
    steps = explain(tokenizer, " the", token=False).rows
    assert (steps[0]["tokens"], steps[-1]["tokens"]) == (['" "', '"t"', '"h"', '"e"'], ['" the"'])
    found = explain(tokenizer, " the")
    assert found.rows[-1]["makes"] == '" the"'
    assert all(row["n"] > 0 for row in found.rows)
    picky = Tokenizer(trained("picky"))
    model = picky.encoder.model
    dead = next(e.id for e in model.events if e.op is Op.DELETE and e.id not in model.model_id)
    gone = explain(picky, f"log:{dead}")
    assert "deleted, no id" in gone.about
    assert any(note.startswith("Deleted at event") for note in gone.notes)
    assert explain(tokenizer, "id:3").about.startswith('"')
    assert "base symbol" in explain(tokenizer, "a").notes[0]


def test_the_command_tells_tokens_from_texts(tmp_path):
    """A token if it is one, else a text; --token and --text settle it; --json is the same as data."""
    log = tmp_path / "m.jsonl"
    write_event_log(log, trained("boundless"))
    text = cli("explain", log, "the end of the day")
    assert "(across chunks)" in text.stdout
    data = json.loads(cli("explain", log, "--json", "--text", " the").stdout)
    assert data["rows"][0]["did"] == "base symbols"
    assert "never had a token" in cli("explain", log, "--token", "no such token", expect=2).stderr
    tokenizer = Tokenizer(trained("boundless"))
    with pytest.raises(UsageError, match="is a special token"):
        explain(tokenizer, "<|endoftext|>", token=True)
    with pytest.raises(UsageError, match="was given, not learned"):
        explain(tokenizer, f"id:{tokenizer.eot_token}")
