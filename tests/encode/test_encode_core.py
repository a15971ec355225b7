"""The core's encoder, judged by replay: long sequences in windows, the cache, blocks, threads, limits; decoding."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.core.encoding import WHOLE, BlockIds
from streambpe.core.strings import as_buffers
from streambpe.encode import blocks
from streambpe.encode import encoder as encode_encoder
from streambpe.encode.encoder import Encoder, RunJoiner
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import LimitError
from streambpe.model.alphabet import bytes_alphabet, script_alphabet
from streambpe.model.eventlog import EventLog, Header, StopWord, delete_event, merge_event, supermerge_event
from streambpe.model.replay import Model, merge
from streambpe.model.vocabulary import Vocabulary
from tests.oracles.replay import encode_chunk, encode_chunks, encode_symbols, join_chunks, to_model_ids
from tests.oracles.splits import split_text
from tests.tiers import examples, long, seeds
from tests.trained import DOCUMENTS, HOSTILE, KINDS, configured, random_log, trained

A, B, C, D = b"abcd"


def model_of(*events, pattern="none"):
    """A log of events over bytes."""
    return EventLog(Header(bytes_alphabet().to_header(), {"pattern": pattern}), tuple(events))


def flat(sequences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """(all symbols one after another, how many of each), as the core takes sequences."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    return np.array([symbol for sequence in sequences for symbol in sequence], np.int32), lengths


def cut(ids: np.ndarray, counts: np.ndarray) -> list[list[int]]:
    """The core's answer, as lists."""
    return [part.tolist() for part in np.split(ids, np.cumsum(counts)[:-1])]


def in_windows(log: EventLog, window: int, sequences: list[list[int]]) -> list[list[int]]:
    """Sequences replayed by the core."""
    return cut(*Encoder(log, window=window).encode_many(*flat(sequences)))


def symbols(rng: random.Random, length: int, letters: bytes = b"abc") -> list[int]:
    """Letters by chance, in stretches that repeat, and runs of one letter."""
    made: list[int] = []
    while len(made) < length:
        kind = rng.random()
        if kind < 0.4 or not made:
            made += rng.choices(letters, k=rng.randint(1, 30))
        elif kind < 0.7:
            made += [rng.choice(letters)] * rng.randint(1, 40)
        else:
            at = rng.randrange(len(made))
            made += made[at : at + rng.randint(1, 60)] * rng.randint(1, 3)
    return made[:length]


@examples(150)
@given(st.integers(0, 10**6), st.sampled_from([8, 9, 13, 32, 64, 4096]))
def test_long_sequences_are_replayed_in_windows_as_in_one(seed, window):
    """Whatever the window, with deletions and revived tokens too; a border that does not hold makes windows larger."""
    rng, log = random.Random(seed), random_log(seed, supers=False)
    model = Model(log)
    sequences = [symbols(rng, rng.choice([0, 1, 2, 47, 48, 49, 60, 150])) for _ in range(4)]
    assert in_windows(log, window, sequences) == [encode_symbols(model, sequence) for sequence in sequences]


def test_what_hangs_together_from_end_to_end_is_found_out():
    """abab...: whether a or b begins a token is decided at the far end. No border inside a window holds."""
    events = [merge_event(B, C, 256, 9), merge_event(A, 256, 257, 8)]
    chain = [merge_event(257, A, 258, 7), merge_event(258, B, 259, 6)]
    late = model_of(*events, *chain, merge_event(B, A, 260, 5), merge_event(A, B, 261, 4))
    rng = random.Random(3)
    for log in (late, model_of(merge_event(B, A, 256, 9), merge_event(A, B, 257, 8), merge_event(257, 257, 258, 7))):
        model = Model(log)
        for front in (b"", b"a", b"b", b"bc", b"abc"):
            sequence = [*front, *(b"ab" * rng.randint(40, 90)), *rng.choice([b"", b"c", b"a"])]
            for window in (8, 24, 4096):
                assert in_windows(log, window, [sequence]) == [encode_symbols(model, sequence)]


def one_token_of(depth: int) -> EventLog:
    """2^depth letters are one token: no border inside."""
    return model_of(*(merge_event(255 + i if i else A, 255 + i if i else A, 256 + i, 9) for i in range(depth)))


def test_memory_for_a_chunk_without_borders_is_limited():
    """A token that is larger than any window: one clear error where the limit has no room, and its id where it has."""
    encoder = Encoder(one_token_of(15), window=64)
    chunk = b"a" * (1 << 15)
    assert encoder.core().id_list(chunk) == [270]
    assert encoder.core(limit=4 << 20).id_list(chunk) == [270]
    small = encoder.core(limit=1 << 20)
    with pytest.raises(LimitError, match="Give more --memory"):
        small.id_list(chunk)
    assert small.id_list(b"aaaab") == [257, B]


def test_chunks_of_every_size_share_a_line_of_the_cache():
    """Two small chunks or a larger one stand there, of many bytes or of many ids: put in and taken out in any order.
    Those of every length, also of more bytes or ids than it holds, and at the end, where less may be read."""
    encoder = Encoder(trained("plain"))
    words = ["a", " the", *(letter * n for letter in "e\0" for n in (15, 16)), " of" * 5]
    words += ["zqxjzqxj"[:n] for n in (2, 3, 4, 7, 8)]
    words += [" the" * n + "q" * i for n in (0, 3, 4, 7) for i in range(1, 6)]
    words += [text * n for n in range(1, 70) for text in ("e", "the", "\0", "é")]
    wanted = {word: to_model_ids(encoder.model, encode_chunk(encoder.model, word.encode())) for word in words}
    assert {len(ids) for ids in wanted.values()} >= set(range(1, 9))
    rng = random.Random(3)
    for lines in (1, 2, 4, 1000):
        picked = [rng.choice(words[: rng.choice((3, 12, 36, 999))]) for _ in range(4000)]
        found = encoder.core(cache_bytes=64 * lines).chunks(*as_buffers(pl.Series(picked, dtype=pl.String)))
        assert cut(*found) == [wanted[word] for word in picked]


def log_of_characters(rng: random.Random, text: str) -> EventLog:
    """Random pairs that stand in a text of several bytes a character: tokens begin and end inside of characters."""
    sequence, vocabulary = list(text.encode()), Vocabulary(bytes_alphabet(), [])
    events, parts = [], {}
    for _ in range(rng.randint(1, 60)):
        if len(sequence) < 2:
            break
        at = rng.randrange(len(sequence) - 1)
        pair = (sequence[at], sequence[at + 1])
        number = vocabulary.learn(*pair)
        events.append(merge_event(*pair, number, 1))
        sequence, parts[number] = merge(sequence, pair, number), pair
        if rng.random() < 0.2 and (token := rng.choice(list(parts))) in sequence:
            events.append(delete_event(token, parts[token], 1))
            vocabulary.delete(token)
            sequence = [part for symbol in sequence for part in (parts[token] if symbol == token else (symbol,))]
            del parts[token]
    return model_of(*events, pattern=rng.choice(("none", "gpt4", "boundless")))


@examples(150)
@given(st.integers(0, 10**9))
def test_parts_of_a_chunk_encode_as_the_whole(seed):
    """Chunks are looked up in parts where no token spans the border: tokens of every share of two characters, which
    have two to four bytes and some in common, ASCII between them; and deletions, which set bytes free again."""
    rng = random.Random(seed)
    letters = rng.choices("éèñĀāа\u0430б日旦旧本中\u4e2e語，。😀😁🤀a b1", k=rng.randint(2, 8))
    texts = ["".join(rng.choices(letters, k=rng.randint(2, 60))) for _ in range(6)]
    encoder = Encoder(log_of_characters(rng, "".join(texts)))
    usual, tiny = encoder.core(), encoder.core(cache_bytes=0)
    for text in [*texts, *("".join(rng.choices("éñа日旦本中語😀🤀ab ", k=40)) for _ in range(6))]:
        try:
            log_ids = encode_chunks(encoder.model, [chunk.encode() for chunk in encoder.split(text)])
            wanted = to_model_ids(encoder.model, log_ids)
        except KeyError:
            continue
        assert usual.id_list(text.encode()) == tiny.id_list(text.encode()) == usual.id_list(text.encode()) == wanted


@pytest.mark.every(8)
@pytest.mark.parametrize(("kind", "step"), [*((kind, 1 << 16) for kind in KINDS), long("plain", 1 << 12)])
def test_every_character_encodes_as_replay_says(kind, step):
    """All of Unicode, or beyond U+3000 a sixteenth, in texts of 4 096 characters: those outside the alphabet too."""
    tokenizer = Tokenizer(trained(kind))
    model, pattern = tokenizer.encoder.model, tokenizer.encoder.pattern
    for first in range(0, 0x110000, 1 << 12):
        text = "".join(chr(point) for point in range(first, first + (1 << 12)) if not 0xD800 <= point < 0xE000)
        if first > 0x3000 and first % step:
            continue
        wanted = to_model_ids(model, encode_chunks(model, [chunk.encode() for chunk in split_text(pattern, text)]))
        assert tokenizer.encode_ordinary(text) == wanted


def superwords_by_chance(rng: random.Random) -> EventLog:
    """A model that joins letters; what is joined in two ways has one id, so an event may follow one that uses it."""
    letters = rng.choice((b"a", b"ab", b"abc"))
    ids = {bytes([letter]): letter for letter in letters}
    pairs: dict[tuple[int, int], int] = {}
    for _ in range(rng.choice((1, 2, 5, 12, 30))):
        left, right = rng.choices(list(ids), k=2)
        if len(left + right) <= rng.choice((2, 4, 8, 20)):
            pairs.setdefault((ids[left], ids[right]), ids.setdefault(left + right, 256 + len(ids) - len(letters)))
    events = [supermerge_event(*pair, made, 100 - i) for i, (pair, made) in enumerate(pairs.items())]
    return model_of(*events, pattern=r"(?s:.)")


@pytest.mark.parametrize("seed", seeds(60))
def test_a_run_that_comes_in_pieces_is_joined_as_a_whole(seed, monkeypatch):
    """Pieces of any length, asked for what is certain every few ids: the ids of replay, of all rules and both ways."""
    rng = random.Random(seed)
    for _ in range(12):
        monkeypatch.setattr(encode_encoder, "_HELD", rng.choice((1, 4, 30)))
        encoder = Encoder(superwords_by_chance(rng), window=rng.choice((8, 32, 4096)))
        run = np.array(symbols(rng, rng.choice((3, 60, 400)), rng.choice((b"a", b"ab", b"abc"))), np.int32) | WHOLE
        wanted = to_model_ids(encoder.model, join_chunks(encoder.model, [[one - WHOLE] for one in run.tolist()]))
        joiner, none, found, at = RunJoiner(encoder), np.zeros(0, np.int32), [], 0
        while at < len(run):
            size = rng.choice((1, 2, 7, 50))
            found += joiner.join(BlockIds(run[at : at + size], none, none, closed=False)).tolist()
            at += size
            joiner = RunJoiner(encoder, joiner.carry.tolist())  # a job that was stopped here goes on so
        found += joiner.join(BlockIds(none, none, none, closed=True)).tolist()
        assert found == wanted
        assert RunJoiner(encoder).joined(run).tolist() == wanted


def test_the_same_word_again_and_again_is_given_as_it_comes():
    """What is held of one run without an end does not grow with it."""
    encoder = Encoder(model_of(supermerge_event(A, A, 256, 9), supermerge_event(256, 256, 257, 8), pattern=r"(?s:.)"))
    joiner, piece = RunJoiner(encoder), np.full(50_000, A | WHOLE, np.int32)
    for _ in range(20):
        joiner.join(BlockIds(piece, piece[:0], piece[:0], closed=False))
        assert len(joiner.carry) < 20_000


@pytest.mark.parametrize("kind", [*KINDS, "script", "own pattern"])
def test_many_texts_as_two_arrays_are_the_texts_one_by_one(kind, monkeypatch):
    """Empty texts anywhere, many groups of texts, any number of threads; allowed special tokens in some of them; also
    asked for by four threads at once."""
    log = trained(kind if kind in KINDS else "plain")
    if kind == "script":
        log = EventLog(Header(script_alphabet("bytes").to_header(), {"pattern": "script"}), ())
    elif kind == "own pattern":
        log = configured(log, pattern=r"\w+|\s+(?!\S)")
    tokenizer = Tokenizer(log)
    special = next(iter(tokenizer.special_tokens), "")
    texts = ["", *HOSTILE, special, *DOCUMENTS[:40], "", "", f"{special}a{special}{special}b", "a\ud83db", ""]
    texts += [special[:3], special[3:]]  # of two texts beside each other nothing is special
    assert tokenizer.encode_batch([]) == []
    assert [array.tolist() for array in tokenizer.encode_batch_to_numpy([])] == [[], [0]]
    for allowed in ("all", frozenset()):
        how = {"allowed_special": allowed, "disallowed_special": ()}
        wanted = [tokenizer.encode(text, **how) for text in texts]
        for threads, group in ((1, 1 << 20), (3, 1 << 20), (1, 100), (3, 1)):
            monkeypatch.setattr(blocks, "_GROUP", group)
            ids, offsets = tokenizer.encode_batch_to_numpy(texts, num_threads=threads, **how)
            assert (ids.dtype, offsets.dtype, len(offsets)) == (np.uint32, np.int64, len(texts) + 1)
            assert [ids[start:end].tolist() for start, end in pairwise(offsets.tolist())] == wanted
            assert tokenizer.encode_batch(texts, num_threads=threads, **how) == wanted
    with ThreadPoolExecutor(4) as pool:  # which share the tokenizer
        assert list(pool.map(tokenizer.encode_ordinary, texts * 3)) == wanted * 3
        for found in pool.map(lambda _: tokenizer.encode_ordinary_batch(texts, num_threads=2), range(4)):
            assert found == wanted
    assert tokenizer.decode_batch(wanted, num_threads=2) == [tokenizer.decode(ids) for ids in wanted]
    assert tokenizer.decode_bytes_batch(wanted) == [tokenizer.decode_bytes(ids) for ids in wanted]


def test_a_stop_word_is_found_among_many():
    """First, last, one that begins another one, one that ends in another; never inside of a chunk."""
    words = ["a", "ab", "abc", "b", "ñ", "zz", "日本", "the", "x" * 40]
    alphabet = bytes_alphabet()
    stops = tuple(StopWord(256 + i, word.encode()) for i, word in enumerate(words))
    header = Header(alphabet.to_header(), {"pattern": "whitespace"}, stop_words=stops)
    plain = EventLog(replace(header, config={"pattern": "gpt4"}), ())
    for log, mark in ((plain, ""), (EventLog(header, ()), "\u2581")):
        encoder = Encoder(log)
        for word in [*words, "abcd", "aa", "z", "zzz", "日", "x" * 39, "x" * 41]:
            wanted = encode_chunk(encoder.model, (mark + word).encode())
            assert encoder.id_list(word.encode()) == encoder.model_ids[wanted].tolist()
    marked = EventLog(replace(header, stop_words=(StopWord(256, "\u2581the".encode()), StopWord(257, b"q"))), ())
    assert Encoder(marked).id_list(b"the q") == [256, *"\u2581q".encode()]


@pytest.mark.parametrize("kind", KINDS)
def test_long_lists_and_arrays_decode_as_short_ones(kind):
    """From some length on the core decodes: lists, arrays of every type, and the error that names an id."""
    tokenizer = Tokenizer(trained(kind))
    ids = tokenizer.encode_ordinary(DOCUMENTS[0]) * 90
    wanted = b"".join(tokenizer.decode_single_token_bytes(number) for number in ids)
    for given_as in (list, iter, tuple, *(lambda ids, t=t: np.array(ids, t) for t in ("<u2", ">i4", "u4", "i8", "u8"))):
        assert tokenizer.decode_bytes(given_as(ids)) == wanted
    for wrong in (-1, 10**6, 1 << 80):
        with pytest.raises(KeyError, match=f"id {wrong} does not exist"):
            tokenizer.decode_bytes([*ids, wrong])
    with pytest.raises(KeyError, match="id 1000000 does not exist"):
        tokenizer.decode_bytes(np.array([*ids, 10**6]))
    with pytest.raises(KeyError, match="id 'a' does not exist"):
        tokenizer.decode_bytes([*ids, "a"])
