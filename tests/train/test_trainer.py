"""Training as a whole, counts to event log: judged by the slow reference and by published trainers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streambpe.config import LIKE, TrainConfig
from streambpe.core.strings import ChunkList
from streambpe.errors import ResumeMismatch, StreambpeError, UsageError
from streambpe.model.alphabet import (
    Alphabet,
    bytes_alphabet,
    chars_alphabet,
    gpt2_alphabet,
    script_alphabet,
    seen_alphabet,
    utf8_alphabet,
)
from streambpe.model.codecs import codec_of
from streambpe.model.replay import Model
from streambpe.model.script import FIRST_ESCAPE, INDEX_SYMBOLS
from streambpe.resources import Resources
from streambpe.store.parts import PartWriter
from streambpe.store.run import Run
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import resume, train
from streambpe.train.engine.rules import EngineTuning
from streambpe.train.trainer import Trainer
from tests import oracles
from tests.oracles.tables import check
from tests.peers import by_tokenizers, merges_of
from tests.runs import SMALL, by_keyword, counted_run, log_of, plain_events, rows, text_run
from tests.samples import natural_text
from tests.tiers import long

Counts = dict[str, int]


def hard_counts(rng: random.Random) -> Counts:
    """Few letters, runs of one letter, small counts: ties and overlaps everywhere; some letters of two bytes."""
    letters = rng.sample("abcdxyzéñд日", rng.randint(2, 6))
    counts: Counts = {}
    for _ in range(rng.randint(5, 30)):
        word = "".join(rng.choices(letters, k=rng.randint(1, 9))) + rng.choice(letters) * rng.choice([0, 0, 3, 6])
        counts[word] = rng.choice([1, 1, 2, 2, 3, 5, 8])
    return counts


def base_alphabet(config: TrainConfig, counts: dict[bytes, int], stop_words: list[bytes]) -> Alphabet:
    made = {"gpt2": gpt2_alphabet, "bytes": bytes_alphabet, "utf8": utf8_alphabet, "script": script_alphabet}
    if config.alphabet == "bytes1":
        return bytes_alphabet(first_id=1)
    if config.alphabet == "chars":  # of so little text no character is too rare
        return chars_alphabet("".join(chunk.decode() for chunk in counts.keys() - set(stop_words)))
    if config.alphabet == "seen":
        return seen_alphabet(set(counts) - set(stop_words))
    return made[config.alphabet]()


def judge(config: TrainConfig, counts: Counts) -> oracles.Training:
    """What the reference learns from these counts under these options."""
    chunks = {chunk.encode(): n for chunk, n in counts.items()}
    stop_words = oracles.choose_stop_words(chunks, config.stop_list)
    kept = oracles.cut_off(chunks, config.freq_cutoff)
    alphabet = base_alphabet(config, kept, stop_words)
    how: dict[str, Any] = {
        "ties": config.ties, "overlaps": config.overlaps, "stop_words": stop_words,
        "other_ids": config.extra_ids if config.count_specials else 0,
    }  # fmt: skip
    if config.batch == "paper":
        how |= {"cap_divisor": config.cap_divisor, "max_batch_size": config.max_batch or 0}
        return oracles.train_batches(kept, alphabet, config.vocab_size, **how)
    if config.whole_characters and config.encoding == "script":
        how["may_merge"] = oracles.whole_characters_script(INDEX_SYMBOLS, FIRST_ESCAPE)
    elif config.whole_characters:
        how["may_merge"] = oracles.whole_characters_bytes
    if config.tau is not None:
        how["deletions"] = oracles.Deletions.at(config.tau, config.delete_to, picky=config.delete_test == "after")
    how |= {"min_frequency": config.min_frequency, "max_token_length": config.max_token_length}
    how["blocked"] = [codec_of(alphabet, "error").content(token) for token in config.block_tokens]
    return oracles.train_words(kept, alphabet, config.vocab_size, **how)


def assert_equal_to_reference(run: Path, counts: Counts, name: str, like: str = "hf", **options) -> oracles.Training:
    """Train, and compare events, ids, sizes and the header with the reference's."""
    as_counted = {"pattern": "gpt4o", "normalize": "none", "unencodable": "bytes"}  # like may set others
    result = train(run, name=name, like=like, counting={"options": as_counted}, resources=SMALL, **by_keyword(options))
    config = TrainConfig.from_options(like, **options)
    expected = judge(config, counts)
    log = log_of(run, name)
    assert log.events == tuple(expected.events), (like, options)
    header = log.header
    assert Alphabet.from_header(header.alphabet) == expected.vocabulary.alphabet
    assert [(w.id, w.content) for w in header.stop_words] == [(n, c) for c, n in expected.vocabulary.stop_ids.items()]
    assert (result.events, result.reached) == (len(expected.events), expected.target_reached)
    living = expected.vocabulary.size
    first = expected.vocabulary.first_id + (0 if config.specials_first else living)
    assert [(s.text, s.id) for s in header.specials] == [(s, first + i) for i, s in enumerate(config.specials)]
    assert result.size == living + config.extra_ids == Model(log).n_vocab
    if expected.target_reached:
        assert result.size == config.vocab_size + (0 if config.count_specials else config.extra_ids)
    return expected


@pytest.mark.long
@pytest.mark.parametrize("like", sorted(LIKE))
def test_a_name_sets_its_knobs(tmp_path, like):
    """--like NAME: the header records the knobs of that trainer, and the events are the reference's under them."""
    counts = hard_counts(random.Random(like))
    run = counted_run(tmp_path / "run", counts)
    size = 2200 if like == "script" else 290
    assert_equal_to_reference(run, counts, "x", like=like, vocab_size=size, specials=("<s>",), reserve=3)
    config = log_of(run, "x").header.config
    elsewhere = {"superword_pattern", "specials"}  # recorded where there are superwords; a field of its own
    for knob, value in ((knob, LIKE[like][knob]) for knob in LIKE[like].keys() - elsewhere):
        assert config[knob] == ("script" if (like, knob) == ("script", "alphabet") else value), knob
    knobs = {
        "hf": ("gpt2", "all", "ids", "exact"),
        "rustbpe": ("bytes", "all", "ids", "exact"),
        "kensho": ("utf8", "disjoint", "bytes", "exact"),
        "batch": ("bytes", "disjoint", "ids", "paper"),
        "script": ("script", "all", "ids", "exact"),
        "picky": ("chars", "all", "bytes", "exact"),
    }
    assert tuple(config[k] for k in ("alphabet", "overlaps", "ties", "batch")) == knobs[like]


# Published trainers


def learned_pairs(run: Path, name: str) -> list[tuple[bytes, bytes]]:
    model = Model(log_of(run, name))
    return [(model.content(event.pair[0]), model.content(event.pair[1])) for event in model.events]


@pytest.mark.parametrize(("size", "vocab_size"), [(300_000, 3_000), long(10_000_000, 32_000)])
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
    reached = train(run, name="small", vocab_size=258, resources=SMALL)
    assert (reached.size, reached.reached, reached.events) == (258, True, 2)
    base = train(run, name="base", vocab_size=256, resources=SMALL)
    assert (base.size, base.events, base.reached) == (256, 0, True)
    for least in (3, 5):  # single symbols, or nothing, are left
        none = train(run, name=f"none{least}", vocab_size=300, freq_cutoff=least, stop_list=1, resources=SMALL)
        assert (none.size, none.events, none.reached) == (257, 0, False)
    out = train(run, name="all", vocab_size=1000, resources=SMALL)
    assert not out.reached
    assert out.size == 256 + out.events < 1000
    rare = train(run, name="often", vocab_size=1000, min_frequency=2, resources=SMALL)
    assert not rare.reached
    assert 0 < rare.events < out.events
    assert min(event[3] for event in plain_events(run, "often")) >= 2
    assert check(run, resources=SMALL) == []
    again = train(run, name="all", vocab_size=1000, resources=SMALL)
    assert (again.skipped, again.reached, again.size, again.sha256) == (True, False, out.size, out.sha256)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"vocab_size": 242, "like": "kensho"}, "243"),
        ({"vocab_size": 258, "special": ("<s>",), "reserve": 2}, "259"),
        ({"vocab_size": 257, "stop_list": 2}, "258"),
        ({"vocab_size": 3, "alphabet": "seen"}, "4"),
    ],
    ids=str,
)
def test_a_size_below_the_base_is_refused(tmp_path, options, missing):
    """Fewer ids than base, stop words, specials and reserved: refused with their number, nothing left behind."""
    run = counted_run(tmp_path / "run", {"ab": 3, "cd": 2})
    before = sorted(path.name for path in run.iterdir())
    with pytest.raises(UsageError, match=f"less than the {missing} ids"):
        train(run, resources=SMALL, **options)
    assert {path.name for path in run.iterdir()} - {"training", "status.json"} <= set(before)
    # what was refused does not stand in the way of other options
    assert train(run, vocab_size=300, ties="bytes", resources=SMALL).size == 258


# Counts near 2^62


def test_sums_that_could_pass_2_63_are_refused(tmp_path):
    """More bytes than 2^63 - 1 is an error that says so, before anything is learned, and leaves nothing behind."""
    run = counted_run(tmp_path / "run", {"ab": 5})
    part = run / "counts" / "part-99999.parquet"  # counting itself would refuse so much text
    writer = PartWriter(part, run=Run(run).number)
    writer.write(ChunkList.of_table(pa.table({"chunk": pa.array(["abcd"], pa.large_string()), "n": [2**62]})))
    writer.commit([])
    with pytest.raises(StreambpeError, match=r"2\^63"):
        train(run, vocab_size=300, resources=SMALL)
    assert not list(run.glob("*.events*"))
    # without the chunk that is too frequent it learns
    assert train(run, vocab_size=300, stop_list=1, resources=SMALL).events == 1


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ties": "first-seen"}, "--ties first-seen: one of ids, bytes"),
        ({"like": "gpt5"}, "--like gpt5: one of"),
        ({"special": ("<s>", "<s>")}, "--special"),
        ({"special": ("",)}, "--special"),
        ({"special": ("<s>", "\udcff")}, "--special .*not UTF-8"),
        ({"superwords": "boundless", "forbid": "\ud800"}, "--forbid .*not UTF-8"),
        ({"reserve": -1}, "--reserve -1: at least 0"),
        ({"max_token_length": 0}, "--max-token-length 0: at least 1"),
        ({"max_token_length": 10**19}, r"--max-token-length 10+: at most 9223372036854775807"),
        ({"min_frequency": 10**19}, r"--min-frequency 10+: at most 9223372036854775807"),
        ({"name": "Main"}, "--name Main"),
        ({"name": "a/b"}, "--name a/b"),
        ({"name": "temp"}, "--name temp"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_before_anything_is_read(tmp_path, options, message):
    """A value outside its range is named; no folder is made and no source read."""
    with pytest.raises(UsageError, match=message):
        train(tmp_path / "run", [str(tmp_path / "missing.txt")], resources=SMALL, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_blocked_tokens_are_vetoed_with_their_counts(tmp_path):
    """--block-token: the pairs that would have made it stand in table vetoed with the count they were best by."""
    run = counted_run(tmp_path / "run", {"abc": 9, "ab": 2, "bcbc": 3})
    result = train(run, vocab_size=300, block_token=("bc", "ab"), resources=SMALL)
    a, b, c = (gpt2_alphabet().id_of[x] for x in (b"a", b"b", b"c"))
    assert rows(run, "SELECT seq, left_id, right_id, n FROM vetoed ORDER BY n DESC") == [(0, b, c, 15), (0, a, b, 11)]
    assert result.vetoed == 2
    assert result.events == 3  # c b; b cb; bcb c: none of them spells a blocked token
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_trainings_side_by_side(tmp_path):
    """Several names in one run: each has its own tables, views and log, and learns as if it were alone."""
    counts = hard_counts(random.Random(11))
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
        schema = "" if name == "main" else f"{name}."
        for table in ("events", "tokens", "pair_counts", "vetoed"):
            query = f"SELECT * FROM {{}}{table} ORDER BY ALL"
            assert rows(together, query.format(schema)) == rows(alone, query.format(""))
    assert check(together, resources=SMALL) == []


def test_what_was_learned_is_not_learned_again(tmp_path):
    """The same command once more says it is done; a changed option is refused by its name."""
    run = counted_run(tmp_path / "run", {"abcabc": 4, "abd": 1})
    first = train(run, vocab_size=258, resources=SMALL)
    assert train(run, vocab_size=258, batch="1", resources=SMALL).sha256 == first.sha256  # exact and 1 are one rule
    changes = [
        {"ties": "bytes"}, {"overlaps": "disjoint"}, {"alphabet": "bytes"}, {"stop_list": 1}, {"reserve": 1},
        {"special": ("<s>",)}, {"block_token": ("x",)}, {"max_token_length": 4}, {"min_frequency": 2},
    ]  # fmt: skip
    for change in changes:
        (key,) = change
        flag = "--" + key.replace("_", "-")
        with pytest.raises(ResumeMismatch, match=f"{flag}[ ,].*nothing was changed"):
            train(run, **{"vocab_size": 258, **change}, resources=SMALL)
    with pytest.raises(ResumeMismatch, match="257 is smaller"):
        train(run, vocab_size=257, resources=SMALL)
    assert resume(run, resources=SMALL).sha256 == first.sha256  # a refused call is not what resume goes on with


@pytest.mark.long
def test_blocks_lie_under_temp_dir_while_learning(tmp_path):
    """--temp-dir holds the engine's blocks during a scan; afterwards it is empty."""
    temp = tmp_path / "elsewhere"
    temp.mkdir()
    run = counted_run(tmp_path / "run", hard_counts(random.Random(5)))
    seen = set()

    def look(_):
        seen.update(path.name for path in temp.rglob("*") if path.is_file())
        assert not list((run / "training").rglob("*.npy"))

    resources = Resources(SMALL.memory_bytes, 1, temp)
    tuning = EngineTuning(force_scan=True, block_places=20)
    Trainer(run, TrainConfig(vocab_size=300), resources=resources, on_batch=look, tuning=tuning).run()
    assert seen
    assert list(temp.iterdir()) == []
