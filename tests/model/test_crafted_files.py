"""A file of a few lines cannot make a reader take more memory than a model of its size: it is refused at once."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from streambpe.config import TrainConfig
from streambpe.core.encoding import WHOLE, ModelTables
from streambpe.encode.decode import decode_array
from streambpe.encode.encoder import Encoder, RunJoiner
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import EventLogError, LimitError, ModelError, OtherTable, SourceError, UsageError
from streambpe.model import eventlog
from streambpe.model.alphabet import script_alphabet
from streambpe.model.eventlog import read_event_log
from streambpe.train.commands import train
from tests.runs import SMALL, cli, text_run

ALPHABET = {"kind": "bytes", "first_id": 0, "symbols": [f"{byte:02x}" for byte in range(256)]}


SCRIPT = script_alphabet("drop").to_header()


def crafted(path: Path, events: Sequence[dict[str, Any]], alphabet: dict[str, Any], reserved: int) -> Path:
    """An event log with a right digest."""
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    header = {
        "format": "streambpe-events", "version": 1, "config": {"pattern": "none"}, "unicode": None, "corpus": {},
        "alphabet": alphabet, "unk": None, "stop_words": [], "specials": [], "reserved": reserved,
        "events": {"count": len(events), "sha256": hashlib.sha256(lines).hexdigest()},
    }  # fmt: skip
    path.write_bytes(json.dumps(header).encode() + b"\n" + lines)
    return path


def doubling(times: int) -> list[dict[str, Any]]:
    """Each token is twice the one before it."""
    pairs = [97, *range(256, 255 + times)]
    return [{"op": "merge", "left": n, "right": n, "id": 256 + i, "n": 1} for i, n in enumerate(pairs)]


@pytest.mark.parametrize(
    ("events", "alphabet", "reserved", "message"),
    [
        (doubling(60), ALPHABET, 0, "line 25: the tokens up to here"),  # of 2^60 bytes
        ([], ALPHABET, 10**12, r"line 1: .* at `\$\.reserved`"),
        ([], ALPHABET | {"first_id": 2**30}, 0, r"line 1: alphabet: .* at `\$\.first_id`"),
        # text becomes symbols 1 to 1916, so fewer of them would be looked up beyond the model's arrays
        ([], SCRIPT | {"size": 10}, 0, r"line 1: alphabet: .* at `\$\.size`"),
        ([], SCRIPT | {"first_id": 9}, 0, r"line 1: alphabet: .* at `\$\.first_id`"),
        ([], {name: SCRIPT[name] for name in ("kind", "first_id", "size")}, 0, "line 1: alphabet: .*field `sha256`"),
    ],
    ids=["tokens", "reserved", "first id", "few symbols", "other numbers", "of no table"],
)
def test_a_log_of_few_lines_names_little(tmp_path, events, alphabet, reserved, message):
    """It is refused by the reader, before any table is made."""
    with pytest.raises(EventLogError, match=message):
        read_event_log(crafted(tmp_path / "a.events.jsonl", events, alphabet, reserved))


def test_symbols_of_another_character_table_are_refused(tmp_path):
    """Their numbers stand for other characters."""
    with pytest.raises(OtherTable, match="another character table"):
        Tokenizer(crafted(tmp_path / "a.events.jsonl", [], SCRIPT | {"sha256": "0" * 64}, 0))


def test_the_core_is_given_no_symbol_that_the_model_lacks(tmp_path):
    """Whoever makes the tables: symbols and parts of deletions are held against the ids that there are."""
    encoder = Tokenizer(read_event_log(crafted(tmp_path / "a", doubling(3), ALPHABET, 0))).encoder
    with pytest.raises(ModelError, match="symbols up to number 259, but the model has 259 ids"):
        core_tables(encoder, symbols=encoder.codec.symbols._replace(symbols=np.full(256, 259, np.int32)))
    for deletions, into in (({256: [2]}, {}), ({256: [2]}, {2: (97, 97, 97)})):
        with pytest.raises(ModelError, match="Event 2 splits token 256"):
            core_tables(encoder, events=structs.replace(encoder._events, deletions=deletions, into=into))
    for stream in ([259], [WHOLE | 259], [-3], [-1 & ~WHOLE]):
        with pytest.raises(ValueError, match="ids of the model"):
            RunJoiner(encoder).joined(np.array(stream, np.int32))


def core_tables(encoder: Encoder, **others: Any) -> ModelTables:
    """The tables of an encoder, with others in place of some."""
    given = {"events": encoder._events, "symbols": encoder.codec.symbols, "split": None} | others
    return ModelTables(**given, stop_words={}, borders=(), backwards=False, names=None)


def test_what_may_be_is_read(tmp_path, monkeypatch):
    """Tokens up to the bound, also after deletions: a token that is learned again counts once."""
    monkeypatch.setattr(eventlog, "MOST_SYMBOLS", 1 << 10)
    monkeypatch.setattr(eventlog, "MOST_SYMBOLS_A_LINE", 0)
    again = [{"op": "delete", "id": 264, "into": [263, 263], "n": 1}, doubling(9)[-1]] * 3
    path = tmp_path / "a.events.jsonl"
    assert len(Tokenizer(read_event_log(crafted(path, doubling(9) + again, ALPHABET, 9))).encode("a" * 512)) == 1
    with pytest.raises(EventLogError, match="line 11: the tokens up to here"):
        read_event_log(crafted(path, doubling(10), ALPHABET, 0))


def test_a_training_writes_no_model_that_nothing_reads(tmp_path, monkeypatch):
    """8 MB of the letter a were learned in half a minute, and then every command refused the model."""
    monkeypatch.setattr(eventlog, "MOST_SYMBOLS", 1 << 10)
    monkeypatch.setattr(eventlog, "MOST_SYMBOLS_A_LINE", 0)
    run = text_run(tmp_path / "run", "a" * 5000, pattern="none")
    with pytest.raises(LimitError, match=r"model\.events\.jsonl was not written, because its tokens are too long"):
        train(run, resources=SMALL, vocab_size=270)
    assert not list(run.glob("*.events.jsonl"))
    train(run, resources=SMALL, vocab_size=270, name="short", max_token_length=100)
    assert read_event_log(run / "short.events.jsonl").events
    train(run, resources=SMALL, vocab_size=264, name="small")
    assert len(read_event_log(run / "small.events.jsonl").events) == 8


def test_a_log_that_contradicts_itself_is_refused(tmp_path):
    """Its digest is right, its lines are possible one by one, but an id does not stand for what its merge makes."""
    events = doubling(3)
    events[2] |= {"left": 97, "right": 97}  # which is 256 already
    log = crafted(tmp_path / "a.events.jsonl", events, ALPHABET, 0)
    told = cli("encode", log, input="aaaa", expect=1).stderr
    assert "contradicts itself: its merge of 97 and 97 makes b'aa', which has id 256 here, not 258" in told
    events[2] = {"op": "delete", "id": 257, "into": [97, 98, 256], "n": 1}
    log = crafted(tmp_path / "b.events.jsonl", events, ALPHABET, 0)
    told = cli("encode", log, input="aaaa", expect=1).stderr
    assert "contradicts itself: it splits 257 into (97, 98, 256), which is not what it was made of" in told


def test_reserved_ids_are_bounded_where_they_are_asked_for():
    """A model that nobody could read again is not begun."""
    with pytest.raises(UsageError, match="--reserve"):
        TrainConfig.from_options("hf", vocab_size=2**21, reserve=2**20 + 1)


@pytest.mark.parametrize("which", ["ids.npy", "ids.npy.offsets.npy"])
@pytest.mark.parametrize("size", [10**11, 10**400, -8, "8,", "("])
def test_arrays_are_as_long_as_their_files(tmp_path, which, size):
    """The header of an array promises more than the file holds, or what no number is; or it never ends."""
    tokenizer = Tokenizer(read_event_log(crafted(tmp_path / "a.events.jsonl", [], ALPHABET, 0)))
    np.save(tmp_path / "ids.npy", np.arange(8, dtype=np.uint16))
    np.save(tmp_path / "ids.npy.offsets.npy", np.array([0, 8]))
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({size},), }}".encode().ljust(501) + b"\n"
    (tmp_path / which).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))
    with pytest.raises(SourceError, match="cannot be read"):
        list(decode_array(tokenizer, tmp_path / "ids.npy"))


def test_files_of_ids_that_are_not(tmp_path):
    """A table of something else, a record with a word for a number, a list that never ends: one message each."""
    log = crafted(tmp_path / "a.events.jsonl", [], ALPHABET, 0)
    (tmp_path / "a.txt").write_text("abc")
    pq.write_table(pa.table({"other": [[1]]}), tmp_path / "ids.parquet")
    cli("encode", log, tmp_path / "a.txt", "-o", tmp_path / "ids.bin")
    record = json.loads((tmp_path / "ids.bin.json").read_text())
    (tmp_path / "ids.bin.json").write_text(json.dumps(record | {"n_vocab": "many"}))
    assert "no column ids" in cli("decode", log, tmp_path / "ids.parquet", expect=1).stderr
    assert "does not say what ids.bin holds" in cli("decode", log, tmp_path / "ids.bin", expect=1).stderr
    assert "not a list of ids" in cli("decode", log, input="[" * 5000, expect=1).stderr
