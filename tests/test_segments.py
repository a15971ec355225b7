"""The counting route: cut, count distinct pieces, split those. Judged by find-all on whole documents."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streambpe.encode.patterns import PRESETS, code_point_class, find_pattern
from streambpe.encode.reduced import reduced_alphabet
from streambpe.encode.segments import (
    InlineSplitter,
    PieceCounts,
    Pieces,
    count_chunks,
    count_giants,
    cut_pieces,
    pieces_from_keys,
)
from streambpe.encode.split_worker import SplitProcess
from streambpe.store.sources import find_border
from tests.hostile import ATOMS, buffer_of, fast_documents, hostile_text, preset_patterns, random_text

PATTERNS = preset_patterns()
NAMES = [name for name, _ in PATTERNS]
# superbpe2 cuts at numbers only, script mode between a word and a space only: together nowhere
STREAMED = [(name, p) for name, p in PATTERNS if p.has_cuts and name != "superbpe2-scripts"]
# whose chunks are stretches of the text, so that their lengths add up to borders
PLAIN = [(name, p) for name, p in STREAMED if not p.word_mark]
LINEAR = [(name, p) for name, p in PATTERNS if p.linear is not None and p.script_expression is None]


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
@settings(max_examples=12)
@given(texts=st.lists(hostile_text, max_size=4))
def test_fast_route_equals_find_all(name, pattern, texts):
    """Chunk for chunk and in order, for several documents in one buffer."""
    assert fast_documents(buffer_of(*texts), pattern) == [pattern.split(text) for text in texts]


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
def test_fast_route_equals_find_all_on_seeded_text(name, pattern):
    """The same on longer texts whose few atoms meet in every order."""
    rng = random.Random(f"route {name}")
    for _ in range(5):
        texts = [random_text(rng, rng.choice([5, 50, 300])) for _ in range(4)]
        assert fast_documents(buffer_of(*texts), pattern) == [pattern.split(text) for text in texts]


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
def test_all_short_neighbourhoods(name, pattern):
    """Every pair of atoms, bare and between letters, spaces and ends of documents."""
    some = sorted(set(ATOMS))
    rng = random.Random(f"pairs {name}")
    frames = [("", ""), ("a", "b"), (" ", " "), ("\n", "\n"), ("A", "'s"), ("!", "!"), ("1", "2")]
    texts = []
    for a in some:
        for b in rng.sample(some, 8):
            before, after = rng.choice(frames)
            texts.append(before + a + b + after)
    for start in range(0, len(texts), 2000):
        mine = texts[start : start + 2000]
        found = fast_documents(buffer_of(*mine), pattern)
        for text, chunks in zip(mine, found, strict=True):
            assert chunks == pattern.split(text), repr(text)


def all_characters() -> list[str]:
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


@pytest.mark.parametrize(("name", "pattern"), LINEAR, ids=[n for n, _ in LINEAR])
def test_characters_of_every_kind(name, pattern):
    """Characters from all of Unicode, assigned or not, are split as `regex` splits them."""
    mine = [*random.Random(name).sample(all_characters(), 1500), "\u017f", "\u212a", "\U0003d000", "\U00011db0"]
    texts = ["a" + c + "b" for c in mine] + [" " + c + c for c in mine] + ["'" + c + "x" for c in mine]
    found = fast_documents(buffer_of(*texts), pattern)
    for text, chunks in zip(texts, found, strict=True):
        assert chunks == pattern.split(text), [hex(ord(c)) for c in text]


@pytest.mark.parametrize("name", ["boundless", "ultimate1"])
def test_pieces_the_linear_form_cannot_split(name):
    """Capitals before a capitalised word, and long numbers, need the look-ahead; among other pieces they come out
    in their places."""
    pattern = find_pattern(name)
    texts = [
        "aXMLHttp b",
        "ABc\u0301d\u2019e XY\u0301Z\u0301a",
        "123 1234 12\u03013456 x",
        "XML",
        "ab \u01c5\u01c5b\u01c5",
    ]
    assert any("XML" in pattern.split(text) and "Http" in pattern.split(text) for text in texts)
    for text in [*texts, " ".join(texts), "".join(texts)]:
        assert fast_documents(buffer_of(text, "x"), pattern) == [pattern.split(text), ["x"]]


def test_a_piece_is_not_a_text():
    """A piece does not end its document: `$` does not match behind it."""
    pattern = find_pattern("cl100k")
    for odd in ("\ua7ce", "\U00016ea0", "\u0378"):
        for text in (f"{odd}\n\x85の", f"a{odd} \n x", f"{odd}\n \t{odd}\n "):
            assert fast_documents(buffer_of(text), pattern) == [pattern.split(text)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
def test_every_code_point(name, pattern):
    """Every character there is, between letters: the fast route equals find-all."""
    characters = all_characters()
    for start in range(0, len(characters), 1 << 16):
        texts = [f"a{c}b {c}'s" for c in characters[start : start + (1 << 16)]]
        assert fast_documents(buffer_of(*texts), pattern) == [pattern.split(text) for text in texts]


@pytest.mark.parametrize(("name", "pattern"), STREAMED, ids=[n for n, _ in STREAMED])
def test_blocks_give_the_chunks_of_the_whole(name, pattern):
    """A document read in blocks, each ended where a border is certain, has the chunks of the whole document."""
    rng = random.Random(f"blocks {name}")
    split = 0
    for _ in range(6):
        text = random_text(rng, 100)
        if rng.random() < 0.6:
            text = " ".join(
                ["plain words", text, "and more of them,", text[:20], "Here and now 12 more words come"] * 3
            )
        data, held, chunks = text.encode(), b"", []
        size = rng.choice([40, 64, 100, 200])
        blocks = 0
        for start in range(0, len(data), size):
            held += data[start : start + size]
            border = find_border(held, pattern)
            held[:border].decode()  # never inside a character
            if border:
                chunks += [c for document in fast_documents(held[:border], pattern) for c in document]
                held = held[border:]
                blocks += 1
        chunks += [c for document in fast_documents(held + b"\xff", pattern) for c in document]
        assert chunks == pattern.split(text), repr(text)
        split += blocks
    assert split > 5, "texts that are never cut show nothing"


def test_script_blocks_before_inherited_marks():
    """A combining mark behind spaces belongs to the script run before it: no block may end between the two."""
    pattern = find_pattern("gpt4o", split_scripts=True)
    for middle in (" \u0301中", " (\u0301中", " \u0301\u0301x", "  \u302aภ", " .\u200d中 "):
        text = "word and word abc" + middle + "文 and so on and on"
        for stop in range(1, len(text.encode())):
            data = text.encode()
            border = find_border(data[:stop], pattern)
            chunks = [c for d in fast_documents(data[:border], pattern) for c in d]
            chunks += [c for d in fast_documents(data[border:] + b"\xff", pattern) for c in d]
            assert chunks == pattern.split(text), (text, stop, border)


@pytest.mark.parametrize(("name", "pattern"), PLAIN, ids=[n for n, _ in PLAIN])
def test_a_border_ignores_what_follows(name, pattern):
    """A border found in a prefix is a border whatever the rest of the document says."""
    rng = random.Random(f"prefix {name}")
    found = 0
    for _ in range(30):
        head = "plain words, " + random_text(rng, 30) + " and in 2024 there were Some more words. "
        border = find_border(head.encode(), pattern)
        if not border:
            continue
        found += 1
        for _ in range(5):
            text = head + random_text(rng, 10)
            lengths = [len(chunk.encode()) for chunk in pattern.split(text)]
            assert border in np.cumsum(lengths), (text, border)
    assert found > 10


@given(texts=st.lists(hostile_text, max_size=6))
def test_counts_are_a_counter_of_find_all(texts):
    """Counted in several buffers, folded or not, a chunk has the count that Python's Counter gives."""
    pattern = find_pattern("gpt4o")
    counts = PieceCounts()
    for text in texts:
        counts.add(cut_pieces(buffer_of(text), pattern))
    frame = count_chunks(*counts.take(), pattern, InlineSplitter(pattern))
    expected = Counter(chunk for text in texts for chunk in pattern.split(text))
    assert dict(frame.iter_rows()) == expected
    in_order = frame["chunk"].to_list()
    assert [c.encode() for c in in_order] == sorted(c.encode() for c in in_order)
    assert counts.take()[0].len() == 0, "the table is empty after it was taken"


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
def test_windows_cut_where_the_whole_is_cut(monkeypatch, name, pattern):
    """A long text is cut a window at a time: the same borders as in one go."""
    rng = random.Random(f"windows {name}")
    for _ in range(3):
        buffer = buffer_of(random_text(rng, 300), random_text(rng, 40))
        whole = cut_pieces(buffer, pattern).offsets.tolist()
        with monkeypatch.context() as small:
            small.setattr("streambpe.encode.patterns._WINDOW", 41)
            assert cut_pieces(buffer, pattern).offsets.tolist() == whole


@pytest.mark.parametrize("name", ["gpt4o", "gpt2", "boundless", "superbpe2", "script", "whitespace"])
def test_giants_are_counted_alone(monkeypatch, name):
    """Pieces above a size go another way, in stretches: the same counts."""
    pattern = find_pattern(name)
    rng = random.Random(f"giants {name}")
    texts = [random_text(rng, 200) + "ab" * rng.randrange(60) + " " + "\u00e9" * 90 for _ in range(4)]
    monkeypatch.setattr("streambpe.encode.segments.GIANT_BYTES", 12)
    counts = PieceCounts()
    for text in texts:
        for stretch in cut_pieces(buffer_of(text), pattern).stretches(50):
            counts.add(stretch)
    assert counts.giants
    splitter = InlineSplitter(pattern)
    frames = [count_chunks(*counts.take(), pattern, splitter), *count_giants(counts.giants, pattern, splitter)]
    found: Counter[str] = Counter()
    for frame in frames:
        for chunk, n in frame.iter_rows():
            found[chunk] += n
    assert found == Counter(chunk for text in texts for chunk in pattern.split(text))


@given(parts=st.lists(st.binary(max_size=20), min_size=1, max_size=40))
def test_pieces_are_told_apart_by_all_their_bytes(parts):
    """Pieces that differ in length only (NUL bytes) or in the eighth byte only are different pieces."""
    parts = [part for part in parts if part] or [b"x"]
    data = b"".join(parts)
    pieces = Pieces(data, np.cumsum([0, *map(len, parts)]).astype(np.int32))
    distinct, codes = pieces.encode()
    assert [distinct[int(code)] for code in codes] == parts
    short, long = pieces.count()
    found = dict(zip(pieces_from_keys(short["key"].to_numpy()).to_list(), short["n"].to_list(), strict=True))
    found.update(dict(long.iter_rows()))
    assert found == Counter(parts)


@pytest.mark.parametrize("name", ["boundless", "ultimate1"])
def test_numbers_are_grouped_from_their_end(name):
    """Every text of up to five digits, marks, capitals and so on; and longer numbers, with what may stand beside."""
    pattern = PRESETS[name]
    texts = ["".join(t) for k in range(6) for t in itertools.product("1\u00bdA'\u0301 ", repeat=k)]
    texts += [
        a + "1234567890123"[:k] + b for k in range(14) for a in ("", " ", "-", "a", "\n") for b in ("", ".5", "a")
    ]
    texts = [text for text in texts if text]
    assert fast_documents(buffer_of(*texts), pattern) == [pattern.compiled.findall(text) for text in texts]


def test_nul_bytes_count_as_characters():
    """ "a", "a\\0" and "a\\0\\0" are three chunks, though their keys differ in the length byte only."""
    pattern = find_pattern(r"(?s)[^ ]+| ")
    assert fast_documents(buffer_of("a a\0 a\0\0 \0 \0\0"), pattern) == [pattern.split("a a\0 a\0\0 \0 \0\0")]


@pytest.mark.parametrize("split_scripts", [False, True])
def test_split_process_answers_as_the_thread_does(split_scripts):
    """The worker process gives the chunks of the same pattern, with script runs, or with a form for ASCII."""
    pattern = find_pattern("word-level", split_scripts=split_scripts)
    assert (pattern.for_ascii is None) == split_scripts
    texts = [random_text(random.Random(i), 30) for i in range(20)] + ["", "\0", "日本 語"]
    worker = SplitProcess(pattern.expression, pattern.script_expression, pattern.keep_gaps, pattern.for_ascii)
    try:
        for script_runs in (False, True):
            theirs = worker.split(texts, script_runs)
            ours = InlineSplitter(pattern).split(texts, script_runs)
            assert [list(x) for x in theirs] == [list(x) for x in ours]
    finally:
        worker.close()
        worker.close()  # twice is fine


def test_split_process_that_dies_is_an_error():
    """A worker killed from outside is told as such, not as an empty answer."""
    worker = SplitProcess(r"(?s).", None, False)
    worker.split(["a"], False)
    worker._process.kill()
    worker._process.wait()
    with pytest.raises(BrokenPipeError):
        worker.split(["b" * 100_000], False)
    worker.close()


@pytest.mark.parametrize("folds", [True, False])
def test_reduced_symbols_are_the_classes_of_regex(folds):
    """Every code point beyond ASCII is mapped to the symbol of its class, and to a letter only if it folds to it."""
    points = np.array([ord(c) for c in all_characters() if not c.isascii()], np.int32)
    symbols = reduced_alphabet(folds).reduce(points)
    members = {
        "B": r"\p{Lu}",
        "\x04": r"\p{Lt}",
        "b": r"\p{Ll}",
        "\x01": r"[\p{Lm}\p{Lo}]",
        "\x02": r"\p{M}",
        "0": r"\p{N}",
        "!": r"[\p{P}\p{S}]",
        "\x05": "\u2019",
        "\x0b": r"\s",
    }
    expected = np.full(len(points), 3, np.uint8)
    for symbol, expression in members.items():
        expected[code_point_class(expression)[points]] = ord(symbol)
    if folds:
        expected[points == 0x17F] = ord("s")
    assert (symbols == expected).all()
