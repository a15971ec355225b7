"""UW SuperBPE from stored documents: equal to the slow reference, exact in Hugging Face's form, safe to kill."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
import regex

from streambpe import Tokenizer
from streambpe.config import TrainConfig
from streambpe.errors import LimitError, PatternError, RunMismatch, Stopped
from streambpe.model.alphabet import gpt2_alphabet, seen_alphabet, utf8_alphabet
from streambpe.model.eventlog import Op
from streambpe.resources import Resources
from streambpe.sources.source import Source
from streambpe.text.patterns import find_pattern
from streambpe.train.counting.count import count
from streambpe.train.superwords import phase
from tests import oracles
from tests.oracles.splits import split_text
from tests.oracles.tables import check
from tests.runs import SMALL, cli, log_of, rows, small_blocks, trainer
from tests.samples import prose_documents, written
from tests.tiers import seeds
from tests.train.test_superwords import documents_run, in_small_pieces, learn, learn_two_ways, random_options

LINES = r"(?s)\n|[^\n]+"  # a stage-2 pattern of one's own, without certain cuts


def reference_events(documents: list[str], pattern: str, options: dict) -> list:
    """What the slow reference learns: words, then stage 2 over the same documents."""
    given = dict(options)
    like, vocab_size, transition = given.pop("like"), given.pop("vocab_size"), given.pop("transition")
    given.pop("superwords")
    alphabet = utf8_alphabet() if like == "kensho" else gpt2_alphabet()
    if given.pop("alphabet", None) == "seen":
        alphabet = seen_alphabet([document.encode() for document in documents])
    first, second = find_pattern(pattern), find_pattern(given.pop("stage2_pattern", "superbpe2"))
    most, forbid, cutoff = (given.pop(name, None) for name in ("max_superword_words", "forbid", "freq_cutoff"))
    given["blocked"] = [token.encode() for token in given.pop("block_tokens", ())]
    if given.pop("whole_characters", False):
        given["may_merge"] = oracles.whole_characters_bytes
    counts = Counter(chunk.encode() for document in documents for chunk in split_text(first, document))
    words = oracles.train_words({c: n for c, n in counts.items() if n >= (cutoff or 1)}, alphabet, transition, **given)
    inherited = [tuple(words.vocabulary[part].content for part in event.pair) for event in words.events]

    def refused(content: bytes) -> bool:
        if most is not None and len(split_text(first, content.decode(errors="replace"))) > most:
            return True
        try:
            return forbid is not None and regex.search(forbid, content.decode()) is not None
        except UnicodeDecodeError:
            return False

    chunks = Counter(chunk.encode() for document in documents for chunk in split_text(second, document))
    return oracles.train_uw(inherited, chunks, alphabet, vocab_size, refused=refused, **given).events


def random_case(seed: int) -> tuple[list[str], str, dict]:
    """(documents, pattern, options): few letters, runs of spaces, digits and points; every option now and then."""
    rng = random.Random(seed)
    words = ["".join(rng.choice("abé日") for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(2, 6))]
    words += ["12", "2024", "..", ".", "aaa", "Ab's"]
    gaps = [" ", " ", "", "  ", "\n", "   "]
    documents = [
        "".join(rng.choice(gaps) + rng.choice(words) for _ in range(rng.randint(0, 50)))
        for _ in range(rng.randint(1, 10))
    ]
    like = rng.choice(["hf", "hf", "kensho"])
    base = 243 if like == "kensho" else 256
    options = {
        **random_options(rng),
        "like": like,
        "vocab_size": base + rng.randint(5, 60),
        "superwords": "uw",
        "stage2_pattern": rng.choice(["superbpe2", "superbpe2", LINES, "none"]),
        "max_superword_words": rng.choice([None, None, 2, 3]),
        "max_token_length": rng.choice([None, None, 7]),
    }
    options["transition"] = rng.randint(base, options["vocab_size"])
    if rng.random() < 0.7:
        return documents, rng.choice(["superbpe1", "superbpe1", "boundless", "gpt2"]), options
    # cuts of the two stages that have little in common: inherited merges fall to nothing, or never stand
    documents = ["".join(rng.choices("abc ", k=rng.randint(2, 40))) for _ in range(rng.randint(2, 14))]
    options |= {"stage2_pattern": rng.choice([r"(?s)a[bc ]*|[bc ]+|.", r"(?s).{1,6}", "none"]), "freq_cutoff": 1}
    options |= {"transition": options["vocab_size"], "min_frequency": 1}
    return documents, rng.choice([r"(?s)[abc]+|.", r"(?s)[abc ]{1,4}|.", r"(?s)a[bc]*|[bc]+|."]), options


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", seeds(27))
def test_equals_the_slow_reference(seed, tmp_path):
    """Counts of both stages, ties, filters, cut-offs, patterns without cuts: same events, and the tables add up."""
    documents, pattern, options = random_case(seed)
    with pytest.MonkeyPatch.context() as patch:
        if seed % 2 == 0:
            in_small_pieces(patch)
        run = documents_run(tmp_path / "run", documents, pattern)
        learn_two_ways(run, documents, options, seed, reference_events(documents, pattern, options))


@pytest.mark.long
def test_a_model_of_seen_bytes_encodes_the_rare_words_that_were_cut_off(tmp_path):
    """The second stage learns from all text, so bytes that stand only in words below --freq-cutoff are symbols too."""
    documents = ["aa ab aa ab aa ab z q aa ab aa", "aa ab aa ab", "aa ab aa ab xx"]
    options = {
        "like": "hf",
        "vocab_size": 17,
        "superwords": "uw",
        "transition": 10,
        "alphabet": "seen",
        "freq_cutoff": 2,
    }
    run = documents_run(tmp_path / "run", documents, "superbpe1")
    assert learn(run, options) == reference_events(documents, "superbpe1", options)
    tokenizer = Tokenizer(run)
    assert [tokenizer.decode(tokenizer.encode(text)) for text in documents] == documents
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_merges_whose_count_fell_to_zero_are_kept(tmp_path):
    """(b, c) and (ab, c) are words, and stage 2 has them side by side only until an earlier merge takes a part away:
    they keep their place with n 0, as the published trainer keeps them."""
    pattern = r"(?s)abc(?=d!)|a(?=bc;)|ab|bc|cd|."
    documents = ["abcd"] * 30 + ["ab"] * 9 + ["abc;"] * 6 + ["abcd!"] * 4
    options = {"like": "hf", "vocab_size": 262, "superwords": "uw", "transition": 260, "stage2_pattern": "none"}
    wanted = reference_events(documents, pattern, options)
    assert [event.n for event in wanted] == [49, 34, 0, 6, 34, 6]
    run = documents_run(tmp_path / "run", documents, pattern)
    learn_two_ways(run, [*documents, "bc", "xbcabcd"], options, 0, wanted)


@pytest.mark.long
def test_the_export_to_hugging_face_is_exact(tmp_path):
    """--strict passes; the tokenizers library encodes every text as the model does, and superwords are used."""
    tokenizers = pytest.importorskip("tokenizers")
    prose = [f"{document} {number * 37}. " for number, document in enumerate(prose_documents())]
    run = documents_run(tmp_path / "run", prose, "superbpe1")
    learn(run, {"vocab_size": 700, "superwords": "uw", "transition": 500})
    assert {event.op for event in log_of(run).events} == {Op.MERGE}
    held = written(tmp_path / "held.txt", "\n".join(prose[:20]) + "  12345 --- the end\n")
    cli("export", run, "--to", "hf", "-o", tmp_path / "hf.json", "--strict", "--verify", held)
    theirs, ours = tokenizers.Tokenizer.from_file(str(tmp_path / "hf.json")), Tokenizer(run)
    for text in [*prose[:30], held.read_text(), "a  b   c\n\n12 34567 ..,, é日"]:
        ids = ours.encode_ordinary(text)
        assert theirs.encode(text).ids == ids
        assert ours.decode(ids) == text
    assert any(" " in ours.decode([number]).strip() for number in ours.encode_ordinary(prose[0]))


def test_stopped_among_superwords_of_whole_characters_it_adds_up(tmp_path, monkeypatch):
    """What was learned last is made of superwords from before it: `check` told false differences of such pairs."""
    monkeypatch.setattr("streambpe.train.pace.Pace.is_due", lambda _: True)
    run, stop = documents_run(tmp_path / "run", ["Käse und Brot. Käse und Öl. "] * 9, "superbpe1"), threading.Event()
    options = {"vocab_size": 400, "superwords": "uw", "transition": 256, "whole_characters": True, "batch": "1"}

    def on_batch(batch):
        if any(event.id == 260 for event in batch.events):
            stop.set()

    config, roomy = TrainConfig.from_options(**options), Resources(8 * 10**9, 2)  # pairs are told where there is room
    with pytest.raises(Stopped):
        trainer(run, config, resources=roomy, on_batch=on_batch, stop=stop, checkpoint_seconds=0).run()
    assert rows(run, "SELECT value FROM facts WHERE key = 'pair_counts_at'") == [("5",)]
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_what_the_second_stage_cannot_cut_is_refused(tmp_path, monkeypatch):
    """Chunks that are not the whole text; a pattern that would lose text; a document without a certain border that is
    too large for memory."""
    options = {"vocab_size": 300, "superwords": "uw", "transition": 280}
    run = tmp_path / "run"
    source = Source("documents", "iterator", texts=["one two three"] * 5)
    count(run, [source], pattern=r"\w+", gaps="drop", sequences=True, resources=SMALL)
    with pytest.raises(RunMismatch, match="--gaps drop"):
        learn(run, options)
    other = documents_run(tmp_path / "other", ["one two three"] * 5, "superbpe1")
    with pytest.raises(PatternError, match="unmatched"):
        learn(other, {**options, "stage2_pattern": r"\w+"})
    monkeypatch.setattr(phase, "_REST_SHARE", 1 << 60)
    small_blocks(monkeypatch, 64, ordered=False)
    large = documents_run(tmp_path / "large", ["one two three " * 50], "superbpe1")
    with pytest.raises(LimitError, match="--stage2-pattern"):
        learn(large, {**options, "stage2_pattern": "none"})


@pytest.mark.parametrize(
    ("given", "transition"),
    [({"vocab_size": 32_000}, 24_000), ({"vocab_size": 400, "reserve": 60}, 256), ({"transition": 300}, 300)],
    ids=str,
)
def test_a_transition_that_is_not_given(given, transition):
    """Three quarters of the tokens, special and reserved ids not counted, and no less than the bytes."""
    for superwords in ("uw", "superbpe"):
        assert TrainConfig.from_options(superwords=superwords, **given).transition == transition


@pytest.mark.long
def test_uw_takes_what_is_not_given(tmp_path):
    """A new RUN gets uw's own pattern and transition, and the command says so; a counted RUN keeps its pattern."""
    source = written(tmp_path / "a.txt", "the cat of the house and the dog of the street\n" * 40)
    options = ("--lines", "-s", "300", "--superwords", "uw", "--progress", "none")
    done = cli("train", tmp_path / "alone", source, *options)
    assert "takes --pattern superbpe1 --transition 256 (" in done.stderr
    assert " takes " not in cli("train", tmp_path / "alone", "-s", "310", "--progress", "none").stderr
    said = cli("train", tmp_path / "said", source, *options, "--pattern", "superbpe1", "--transition", "256")
    assert " takes " not in said.stderr
    assert log_of(tmp_path / "said").events == log_of(tmp_path / "alone").events[:44]
    cli("count", tmp_path / "counted", source, "--lines", "--sequences", "--progress", "none")
    assert "takes --transition 256 (" in cli("train", tmp_path / "counted", *options).stderr
