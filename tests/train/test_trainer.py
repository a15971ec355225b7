"""Training as a whole, counts to event log: judged by the slow reference and by published trainers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streambpe.config import TrainConfig
from streambpe.errors import ResumeMismatch, UsageError
from streambpe.model.alphabet import (
    Alphabet,
    bytes_alphabet,
    chars_alphabet,
    gpt2_alphabet,
    script_alphabet,
    seen_alphabet,
    utf8_alphabet,
)
from streambpe.model.replay import Model
from streambpe.resources import Resources
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import resume, train
from streambpe.train.engine.rules import EngineTuning
from tests.oracles.tables import check
from tests.peers import by_tokenizers, merges_of
from tests.runs import SMALL, break_off, counted_run, log_of, text_run, trainer
from tests.samples import natural_text
from tests.tiers import long


def base_alphabet(config: TrainConfig, counts: dict[bytes, int], stop_words: list[bytes]) -> Alphabet:
    words = counts.keys() - set(stop_words)
    if config.alphabet == "chars":  # of so little text no character is too rare
        return chars_alphabet("".join(chunk.decode() for chunk in words))
    if config.alphabet == "seen":
        return seen_alphabet(words)
    made = {"gpt2": gpt2_alphabet, "bytes": bytes_alphabet, "utf8": utf8_alphabet, "script": script_alphabet}
    return bytes_alphabet(1) if config.alphabet == "bytes1" else made[config.alphabet]()


# Published trainers


def learned_pairs(run: Path, name: str) -> list[tuple[bytes, bytes]]:
    model = Model(log_of(run, name))
    return [(model.content(event.pair[0]), model.content(event.pair[1])) for event in model.events]


@pytest.mark.parametrize(("size", "vocab_size"), [(50_000, 1_000), long(10_000_000, 32_000)])
def test_merges_equal_hugging_face_and_rustbpe(tmp_path, size, vocab_size):
    """The whole merge list, ties included, from the same documents and pattern."""
    text = natural_text(1, size)
    documents = [line for line in text.split("\n") if line]
    run = text_run(tmp_path / "run", text, "gpt4o")
    train(run, name="hf", like="hf", vocab_size=vocab_size, resources=SMALL)
    ours = learned_pairs(run, "hf")
    pattern = find_pattern("gpt4o").expression
    assert pattern is not None
    assert len(ours) == vocab_size - 256
    assert ours == merges_of(by_tokenizers(documents, vocab_size, pattern=pattern))

    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter(documents), vocab_size, pattern=pattern)
    ranks = [(bytes(token), rank) for token, rank in tokenizer.get_mergeable_ranks()]
    theirs = [token for token, rank in sorted(ranks, key=lambda row: row[1]) if rank >= 256]
    train(run, name="rustbpe", like="rustbpe", vocab_size=vocab_size, resources=SMALL)
    assert [left + right for left, right in learned_pairs(run, "rustbpe")] == theirs
    assert learned_pairs(run, "rustbpe") != ours, "ties go by other ids, or this text has no ties"
    counts = [event.n for event in log_of(run, "hf").events]
    assert len(set(counts)) < len(counts) // 2, "ties are tested"
    assert check(run, resources=SMALL) == []


# The ends of learning


@pytest.mark.long
def test_target_reached_and_no_pair_left(tmp_path):
    """Exactly the size asked for; or fewer, when no pair is left or the best is below --min-frequency."""
    run = counted_run(tmp_path / "run", {"abcabc": 4, "abd": 1, "e": 3})
    for name, options, ended in (
        ("small", {"vocab_size": 258}, (258, 2, True)),
        ("base", {"vocab_size": 256}, (256, 0, True)),
        ("symbols", {"freq_cutoff": 3, "stop_list": 1}, (257, 0, False)),
        ("nothing", {"freq_cutoff": 5, "stop_list": 1}, (257, 0, False)),
        ("all", {}, (260, 4, False)),
        ("often", {"min_frequency": 2}, (259, 3, False)),
        ("all", {}, (260, 4, False)),
    ):
        found = train(run, name=name, resources=SMALL, **{"vocab_size": 1000, **options})
        assert (found.size, found.events, found.reached) == ended, name
    assert found.skipped
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_a_size_below_the_base_is_refused(tmp_path):
    """Fewer ids than stop words and the symbols of this text: refused with their number, nothing left behind."""
    run = counted_run(tmp_path / "run", {"ab": 3, "cd": 2})
    before = {path.name for path in run.iterdir()}
    for options, least in (({"vocab_size": 257, "stop_list": 2}, 258), ({"vocab_size": 3, "alphabet": "seen"}, 4)):
        with pytest.raises(UsageError, match=f"less than the {least} ids"):
            train(run, resources=SMALL, **options)
    assert {path.name for path in run.iterdir()} - {"training", "status.json"} <= before
    # what was refused does not stand in the way of other options
    assert train(run, vocab_size=300, ties="bytes", resources=SMALL).size == 258


# Options


@pytest.mark.long
def test_trainings_side_by_side(tmp_path):
    """Several names in one run: each has its own tables, views and log, and learns as if it were alone."""
    counts = Counter(natural_text(11, 2000).split())
    together = counted_run(tmp_path / "together", counts)
    jobs = {
        "main": {"vocab_size": 270},
        "other": {"vocab_size": 280, "ties": "bytes"},
        "cut": {"freq_cutoff": 3, "vocab_size": 280},
    }
    for name, options in jobs.items():
        train(together, name=name, resources=SMALL, **options)
    for name, options in jobs.items():
        alone = counted_run(tmp_path / name, counts)
        train(alone, resources=SMALL, **options)
        file = "model" if name == "main" else name
        assert (together / f"{file}.events.jsonl").read_bytes() == (alone / "model.events.jsonl").read_bytes()
    assert check(together, resources=SMALL) == []


def test_another_option_and_a_smaller_size_are_refused(tmp_path):
    """Stopped or done: an error that names the option; the same command goes on, or says that it is done."""
    run = counted_run(tmp_path / "run", {"abcabc": 4, "abd": 1})
    break_off(run, passes=1, vocab_size=258, batch="1")
    before = (run / "pending.events").read_bytes()
    changes: list[dict[str, Any]] = [
        {"ties": "bytes"}, {"alphabet": "bytes"}, {"stop_list": 1}, {"special": ("<s>",)}, {"block_token": ("x",)},
    ]  # fmt: skip
    for done in (False, True):
        for change in changes if done else changes[:2]:
            flag = "--" + next(iter(change)).replace("_", "-")
            with pytest.raises(ResumeMismatch, match=f"{flag}[ ,].*nothing was changed"):
                train(run, **{"vocab_size": 258, **change}, resources=SMALL)
        with pytest.raises(ResumeMismatch, match="257 is smaller"):
            train(run, vocab_size=257, resources=SMALL)
        if not done:
            assert (run / "pending.events").read_bytes() == before
            first = train(run, vocab_size=258, resources=SMALL)  # exact and 1 are one rule
    assert resume(run, resources=SMALL).sha256 == first.sha256  # a refused call is not what resume goes on with


@pytest.mark.long
def test_blocks_lie_under_temp_dir_while_learning(tmp_path):
    """--temp-dir holds the engine's blocks during a scan; afterwards it is empty."""
    temp, seen = tmp_path / "elsewhere", set()
    temp.mkdir()
    run = counted_run(tmp_path / "run", Counter(natural_text(5, 2000).split()))

    def look(_):
        seen.update(path.name for path in temp.rglob("*") if path.is_file())
        assert not list((run / "training").rglob("*.npy"))

    how = {"resources": Resources(SMALL.memory_bytes, 1, temp), "on_batch": look}
    trainer(run, TrainConfig(vocab_size=300), **how, tuning=EngineTuning(force_scan=True, block_places=20)).run()
    assert seen
    assert list(temp.iterdir()) == []
