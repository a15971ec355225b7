"""The tokenizer encodes as replay does, decodes what it encodes, and treats special tokens as tiktoken does."""

from __future__ import annotations

import copy
import pickle
import random
import re
from dataclasses import replace

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.tiktoken_ranks import ranks_and_pattern
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import EventLog, Header, Special, write_event_log
from tests.oracles.replay import encode_chunks, to_model_ids
from tests.tiers import examples
from tests.trained import DOCUMENTS, HOSTILE, KINDS, TEXT, configured, random_log, trained

BYTE_KINDS = [kind for kind in KINDS if kind != "whitespace"]
odd_text = st.lists(st.sampled_from(["a", "b", "ab", " a", " ab", " b", "c", " bc", ".", " "]), max_size=60).map(
    "".join
)
any_text = st.text(max_size=40) | st.text("ab \n\r\t'.1é日", max_size=40)


def replayed(encoder: Encoder, text: str) -> list[int]:
    """The meaning of the model, by definition: log ids."""
    return encode_chunks(encoder.model, [chunk.encode() for chunk in encoder.split(text)])


@pytest.mark.parametrize(("kind", "own"), [*((kind, False) for kind in KINDS), ("stops", True), ("boundless", True)])
def test_trained_models_encode_as_replay_says(kind, own):
    """Texts give what replaying event by event gives: of training, and hostile; also where the expression of the preset
    is a user's own, which `regex` runs."""
    log, texts = trained(kind), [*DOCUMENTS[:40], *HOSTILE]
    preset = Tokenizer(log).encoder
    tokenizer = Tokenizer(configured(log, pattern=preset.pattern.expression) if own else log)
    assert (tokenizer.encoder.pattern.name == "regex") == own
    wanted = [to_model_ids(preset.model, replayed(preset, text)) for text in texts]
    assert [tokenizer.encode_ordinary(text) for text in texts] == wanted
    assert tokenizer.encode_ordinary_batch(texts, num_threads=2) == wanted


@examples(250)
@given(st.integers(0, 10**6), st.lists(odd_text, min_size=1, max_size=4))
def test_random_models_encode_as_replay_says(seed, texts):
    """So do models with every oddity: repeated pairs, revived tokens, supermerges that go back, stop words."""
    tokenizer = Tokenizer(random_log(seed))
    encoder = tokenizer.encoder
    for text in texts:
        try:
            ids = to_model_ids(encoder.model, replayed(encoder, text))
        except KeyError:
            with pytest.raises(ModelError, match="deleted"):
                tokenizer.encode_ordinary(text)
            continue
        assert tokenizer.encode_ordinary(text) == ids
        assert list(tokenizer.encode_stream([text[i : i + 5] for i in range(0, len(text), 5)])) == ids
        assert tokenizer.decode(ids) == text


def test_stream_encoding_equals_encoding_whole():
    """However a text comes in pieces, for every kind of model: the same ids, and not all of them at the end."""
    for kind in KINDS:
        tokenizer = Tokenizer(trained(kind))
        text = " ".join(DOCUMENTS[:60])
        wanted = tokenizer.encode_ordinary(text)
        for size in (1, 17, 1000):
            pieces = [text[i : i + size] for i in range(0, len(text), size)]
            stream = tokenizer.stream_encoder()
            early = [number for piece in pieces for number in stream.feed(piece)]
            assert early + stream.finish() == wanted
            if tokenizer.encoder.pattern.has_cuts and kind != "uw":  # cut only at numbers; there are none
                assert len(early) > len(wanted) // 2


def test_stream_decoding_never_splits_a_character():
    """Every piece is valid text, and together they are the text; a cut-off character ends as U+FFFD."""
    tokenizer = Tokenizer(trained("plain"))
    text = "".join(HOSTILE)
    ids = tokenizer.encode_ordinary(text)
    pieces = list(tokenizer.decode_stream(ids))
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    cut = tokenizer.encode_ordinary("日")[:1]
    assert "".join(tokenizer.decode_stream(cut)) == "\ufffd" == tokenizer.decode(cut)


def test_whitespace_words_lose_their_spacing_only():
    """--pattern whitespace puts the words back with single spaces, whole or as a stream, and has no offsets then;
    unknown characters are UNK."""
    tokenizer = Tokenizer(trained("whitespace"))
    ids = tokenizer.encode("  the   end\n of ba ")
    assert tokenizer.decode(ids) == "the end of ba"
    assert "".join(tokenizer.decode_stream(ids)) == "the end of ba"
    assert tokenizer.special_tokens["<UNK>"] in tokenizer.encode("Ж")
    with pytest.raises(ValueError, match="changes this text"):
        tokenizer.encode_with_offsets("two  words")


# Special tokens.


def as_tiktoken(tokenizer: Tokenizer) -> tiktoken.Encoding:
    ranks, pattern, specials, _ = ranks_and_pattern(tokenizer.encoder)
    return tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)


PLAIN = (Tokenizer(trained("plain")), as_tiktoken(Tokenizer(trained("plain"))))


@pytest.mark.parametrize("allowed", [set(), {"<s>"}, "all"])
@pytest.mark.parametrize("disallowed", [set(), {"<s>"}, {"<|endoftext|>"}, "all"])
@pytest.mark.parametrize("text", ["no specials", "<s>a<|endoftext|>b<s>", "<s", "<|endoftext|>", "<<s>>"])
def test_special_tokens_are_treated_as_tiktoken_treats_them(allowed, disallowed, text):
    """Same ids where tiktoken gives ids, ValueError where it raises one, which does not harm the next call."""
    (ours, theirs), how = PLAIN, {"allowed_special": allowed, "disallowed_special": disallowed}
    try:
        wanted = theirs.encode(text, **how)
    except ValueError:
        for encode, given in ((ours.encode, text), (ours.encode_batch, ["a", text]), (ours.encode_to_numpy, text)):
            with pytest.raises(ValueError, match="special token"):
                encode(given, **how)
        return
    assert ours.encode(text, **how) == wanted
    assert ours.encode_batch([text], **how) == [wanted]
    ids, offsets = ours.encode_batch_to_numpy(["", text, text], **how)
    assert ids.tolist() == wanted * 2
    assert offsets.tolist() == [0, 0, len(wanted), 2 * len(wanted)]
    assert ours.encode_to_numpy(text, **how).tolist() == wanted


SPECIALS = {
    "of one shape": [f"<|special_{i}|>" for i in range(2048)],
    "inside each other": [letter * n for letter in "a<" for n in range(1, 201)],
    "of any beginning": ["".join(random.Random(i).choices("ab<|>.*(é日 ", k=1 + i % 9)) for i in range(2048)],
}


@pytest.mark.parametrize("shape", SPECIALS)
def test_thousands_of_special_tokens_made_encoding_40_times_slower(shape):
    """They are looked for as one, and found where `re` finds them if it tries longer ones first."""
    log = trained("plain")
    specials = list(dict.fromkeys(SPECIALS[shape]))
    top = log.header.specials[0].id
    numbered = tuple(Special(text, top + i) for i, text in enumerate(specials))
    tokenizer = Tokenizer(EventLog(replace(log.header, specials=numbered), log.events))
    rng = random.Random(shape)
    text = "".join(
        rng.choice([*specials[::41], "a", "aaa", "<", "<|special_", "é日", " of the ", "."]) for _ in range(900)
    )
    for some in (specials[:3], specials):
        longest_first = "|".join(re.escape(special) for special in sorted(some, key=len, reverse=True))
        parts = re.split(f"({longest_first})", text)  # every second one is a special token
        wanted: list[int] = []
        for i, part in enumerate(parts):
            wanted += [tokenizer.special_tokens[part]] if i % 2 else tokenizer.encode_ordinary(part)
        assert tokenizer.encode(text, allowed_special=set(some), disallowed_special=()) == wanted
    assert len(parts) > 300
    with pytest.raises(ValueError, match=f"special token {re.escape(repr(parts[1]))} at character {len(parts[0])}"):
        tokenizer.encode(text)


def test_facts_and_single_tokens_equal_tiktoken():
    """n_vocab apart (reserved ids count here), every fact tiktoken tells is told alike."""
    ours, theirs = PLAIN
    assert ours.n_vocab == theirs.n_vocab + 2
    assert ours.eot_token == theirs.eot_token
    assert ours.special_tokens_set == theirs.special_tokens_set
    assert sorted(ours.token_byte_values()) == theirs.token_byte_values()
    assert [ours.decode_single_token_bytes(i) for i in range(300)] == [
        theirs.decode_single_token_bytes(i) for i in range(300)
    ]
    assert ours.encode_single_token(b" the") == theirs.encode_single_token(b" the")
    assert ours.is_special_token(ours.eot_token)


@given(any_text)
def test_encoding_and_offsets_equal_tiktoken(text):
    """Plain models: the same ids as tiktoken on the exported ranks, the same offsets, the same arrays."""
    ours, theirs = PLAIN
    ids = theirs.encode_ordinary(text)
    assert ours.encode_ordinary(text) == ids
    assert ours.decode_with_offsets(ids) == theirs.decode_with_offsets(ids)
    assert ours.encode_to_numpy(text).tolist() == ids
    assert ours.decode_tokens_bytes(ids) == theirs.decode_tokens_bytes(ids)


def test_lone_surrogates_become_what_tiktoken_makes_of_them():
    """A pair is the character it stands for, a lone one U+FFFD."""
    ours, theirs = PLAIN
    for text in ("a\ud83d\udc4db", "a\ud83db"):
        assert ours.encode(text) == theirs.encode(text)


# The object.


def test_pickles_and_copies_encode_alike():
    """A pickle carries the whole model and its cut; a copy is the same object, for nothing in it changes."""
    tokenizer = Tokenizer(trained("boundless"), vocab_size=500)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.n_vocab == tokenizer.n_vocab == 500
    assert again.encode_ordinary(TEXT) == tokenizer.encode_ordinary(TEXT)
    assert copy.copy(tokenizer) is copy.deepcopy(tokenizer) is tokenizer


def test_loading_finds_logs_runs_and_names(tmp_path):
    """A log, a RUN, and RUN:NAME; what is missing is said with what is there."""
    for name in ("model", "small"):
        write_event_log(tmp_path / f"{name}.events.jsonl", trained("plain"))
    wanted = PLAIN[0].encode_ordinary(TEXT)
    for model in (tmp_path, f"{tmp_path}:small", tmp_path / "model.events.jsonl"):
        assert Tokenizer(model).encode_ordinary(TEXT) == wanted
    (tmp_path / "empty").mkdir()
    for model, told in (
        (f"{tmp_path}:other", "it has main, small"),
        (tmp_path / "nothing", "There is no model"),
        (tmp_path / "empty", "no training was finished"),
    ):
        with pytest.raises(ModelError, match=told):
            Tokenizer(model)


def test_unknown_ids_and_symbols_are_named():
    """KeyError for an id that is reserved; a symbol outside the alphabet names itself."""
    tokenizer = Tokenizer(trained("plain"))
    with pytest.raises(KeyError, match="reserved"):
        tokenizer.decode([tokenizer.n_vocab - 1])
    few = Tokenizer(EventLog(Header(Alphabet("seen", (b"a", b"b")).to_header(), {"pattern": "gpt2"}), ()))
    with pytest.raises(ValueError, match=r"b'c'.*not in the 'seen' alphabet"):
        few.encode_ordinary_batch(["a", "abc", "b"])
    odd = EventLog(Header({"kind": "runes", "first_id": 0, "symbols": []}), ())
    with pytest.raises(ModelError, match="kind 'runes'"):
        Tokenizer(odd)


@examples(200)
@given(any_text, st.sampled_from(BYTE_KINDS))
def test_tokens_begin_where_the_offsets_say(text, kind):
    """The bytes from one offset to the next are those of the token; decoding gives the text back, whatever it is."""
    tokenizer = Tokenizer(trained(kind))
    assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text
    ids, offsets = tokenizer.encode_with_offsets(text, "bytes")
    ends = [*offsets, len(text.encode())][1:]
    assert ids == tokenizer.encode(text)
    if all(tokenizer.part_content(number) is None for number in ids):
        assert [text.encode()[start:end] for start, end in zip(offsets, ends, strict=True)] == list(
            tokenizer.decode_tokens_bytes(ids)
        )


def test_a_model_comes_back_from_what_was_saved(tmp_path):
    """`save`, then the path; another program's file, then from_file and from_pretrained."""
    ours = Tokenizer(trained("plain"), 280)
    ours.save(tmp_path / "saved.events.jsonl")
    assert Tokenizer(tmp_path / "saved.events.jsonl").get_vocab() == ours.get_vocab()
    ours.export("hf", tmp_path / "tokenizer.json", compare=False)
    for theirs in (Tokenizer.from_file(tmp_path / "tokenizer.json"), Tokenizer.from_pretrained(tmp_path)):
        assert theirs.encode(TEXT) == ours.encode(TEXT)
    assert ours.vocab_size == ours.get_vocab_size() == 280
