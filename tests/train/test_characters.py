"""--encoding chars: the characters that occur as base symbols, the rarest unknown; PickyBPE as published."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from streambpe.config import TrainConfig
from streambpe.encode.formats.export import export
from streambpe.errors import LimitError
from streambpe.model.replay import Model
from streambpe.train import words
from streambpe.train.commands import train
from tests import oracles
from tests.oracles.tables import check
from tests.runs import SMALL, by_keyword, cli, log_of, rows, text_run
from tests.samples import natural_text, written

TEXT = natural_text(11, 20_000) + "\nrare ☃ snow☃man 東京 東 Ωmega a☃b a☃b ☃☃x\n"
MODES = {
    "picky": {"like": "picky", "vocab_size": 500, "tau": "0.6", "coverage": "0.9997", "stop_list": 2},
    "plain": {"encoding": "chars", "vocab_size": 500, "coverage": "0.9997", "specials": ("<s>",), "freq_cutoff": 2},
    "all": {"encoding": "chars", "vocab_size": 400, "tau": "0.8"},
}


@pytest.fixture(scope="module", params=MODES)
def mode(request):
    """The name of a way to learn over characters."""
    return request.param


@pytest.fixture(scope="module")
def trained(mode, tmp_path_factory) -> Path:
    """A run that learned that way."""
    run = text_run(tmp_path_factory.mktemp(mode) / "run", TEXT, "whitespace" if mode != "all" else "gpt4o")
    assert train(run, resources=SMALL, **by_keyword(MODES[mode])).reached
    return run


@pytest.mark.every(4)
def test_the_log_is_the_slow_trainers(mode, trained, tmp_path):
    """Alphabet, events and sizes are those of the reference over the same chunks; the tables add up; an export says
    which token is for unknown characters."""
    log, options = log_of(trained), MODES[mode]
    model, config = Model(log), log.header.config
    stops = [word.content for word in log.header.stop_words]
    counts = {chunk.encode(): n for chunk, n in rows(trained, "SELECT chunk, n FROM chunk_counts ORDER BY chunk")}
    counts = {c: n for c, n in counts.items() if c not in stops and n >= options.get("freq_cutoff", 1)}
    listed = oracles.covering_alphabet(counts, float(options.get("coverage", 1)))
    often = Counter()
    for chunk, n in counts.items():
        often.update({character.encode(): n * chunk.decode().count(character) for character in set(chunk.decode())})
    assert len(model.alphabet) == len(listed)
    assert len({often[symbol] for symbol in {*listed.symbols} ^ {*model.alphabet.symbols}}) <= 1  # equally rare ones
    deletions = None
    if "tau" in config:
        deletions = oracles.Deletions.at(config["tau"], config["delete_to"], config["delete_test"] == "after")
    slow = oracles.train_words(
        counts, model.alphabet, options["vocab_size"], ties=config["ties"], deletions=deletions, stop_words=stops,
        other_ids=len(log.header.specials),
    )  # fmt: skip
    assert list(log.events) == slow.events
    assert model.n_vocab == options["vocab_size"]
    assert check(trained, resources=SMALL) == []
    ((unknown,),) = rows(trained, "SELECT value::BIGINT FROM facts WHERE key = 'unknown'")
    assert (unknown > 0) == ("coverage" in options)
    export(log, "hf", tmp_path / "tokenizer.json")
    unk = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]["unk_token"]
    assert unk == ("<UNK>" if mode == "picky" else "<unk>")


@pytest.mark.long
def test_the_command_tells_what_is_unknown(tmp_path):
    """train --like picky from a file: counted by the whitespace pattern; the line about unknown characters."""
    source = written(tmp_path / "text.txt", TEXT)
    done = cli("train", tmp_path / "run", source, "--like", "picky", "--vocab-size", 300, "--coverage", "0.999")
    assert "of the rarest characters" in done.stderr
    ids = cli("encode", tmp_path / "run", input="the  end Ж of it\n").stdout
    assert cli("decode", tmp_path / "run", input=ids).stdout.strip() == "the end <UNK> of it"
    assert log_of(tmp_path / "run").header.config["pattern"] == "whitespace"


def test_a_share_is_the_same_however_it_is_written():
    """In the header, and for a training that goes on."""
    assert TrainConfig.from_options(tau="0.90") == TrainConfig.from_options(tau=0.9)
    assert TrainConfig.from_options(encoding="chars", coverage="1.0") == TrainConfig.from_options(encoding="chars")
    assert "coverage" not in TrainConfig.from_options(like="picky", encoding="bytes").as_facts()


def test_more_characters_than_the_memory_has_room_for_are_refused(tmp_path, monkeypatch):
    """Random code points took 1.4 times --memory; with fewer of them the same memory does."""
    monkeypatch.setattr(words, "CHARACTER_BYTES", 1 << 20)
    run = text_run(tmp_path / "run", "".join(map(chr, range(0x4E00, 0x4E00 + 500))) + "the cat " * 10)
    options = {"encoding": "chars", "vocab_size": 600, "resources": SMALL}
    with pytest.raises(LimitError, match=r"506 different characters, which take \d+ MB .* a smaller --coverage"):
        train(run, **options)
    assert not (run / "model.events.jsonl").exists()
    assert train(run, **options, coverage="0.2").events
