"""Tokenizer: text to ids and back, with the method names people know from tiktoken.

    tok = Tokenizer("runs/en")                  # a RUN, RUN:NAME, or an event log
    tok.encode("in the beginning")              -> [259, 1042, 88]
    tok.decode([259, 1042, 88])                 -> "in the beginning"
    tok.encode_batch_to_numpy(["in", "the"])    -> (array [259, 1042], array [0, 1, 2])
    tok.encode("<|end|>", allowed_special="all")-> [32000]

Special tokens follow tiktoken: text that spells one is refused with a ValueError unless the caller
says that it is meant (allowed_special) or is ordinary text (disallowed_special=()).

Ids are model ids. Cost: 10 to 20 ns per byte of English and 2 us per call. Memory: the model, and a cache of 8 MB
for each thread that encodes at the same time.
"""

from __future__ import annotations

import codecs
import functools
import os
import re
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from html import escape
from importlib import import_module
from itertools import groupby, pairwise
from typing import Any, Literal, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from streambpe.core.encoding import END_OF_TEXT, Decoder
from streambpe.encode.blocks import encode_texts, in_groups
from streambpe.encode.coloured import ColouredTokens
from streambpe.encode.encoder import Encoder, as_utf8
from streambpe.encode.stream import StreamDecoder, StreamEncoder
from streambpe.errors import TablesDiffer
from streambpe.later import need
from streambpe.model.eventlog import EventLog
from streambpe.model.script import DecodeErrors
from streambpe.options import several, taken, whole_number
from streambpe.resources import uncollected
from streambpe.store.models import read_model
from streambpe.system import usable_cores
from streambpe.text.unicode_tables import remark_on_tables
from streambpe.text.whitespace import WORD_MARK
from streambpe.threads import in_order

_SAMPLE = "In the beginning 1 234 words were counted;\n\tnaïve tokens — 中文, 👋🏽 — came after."
_FORMATS = "streambpe.encode.formats"  # which import this module
_MANY = 64  # from so many ids on the core decodes

Specials = Literal["all"] | AbstractSet[str]  # special tokens that a text may hold
Disallowed = Literal["all"] | Collection[str]  # special tokens that are an error in a text
T = TypeVar("T")
_DEEPEST = 12  # groups in groups of an expression: `re` refuses some hundreds


class Tokenizer:
    """A model that encodes and decodes. Never changes; one object may serve many threads."""

    def __init__(self, model: str | os.PathLike[str] | EventLog, vocab_size: int | str | None = None) -> None:
        """The tokenizer of a MODEL: an event log, a RUN, or RUN:NAME; or a log that was read already.

        vocab_size: cut the model to this many ids, as if it had been trained to that size. Warns (TablesDiffer) where
        the installed `regex` module has other character tables than the model was learned with.
        """
        if not isinstance(model, EventLog | str | os.PathLike):
            raise TypeError(f"Tokenizer(model={model!r:.80}): give the path of a MODEL.")
        log = model if isinstance(model, EventLog) else read_model(model)
        size = None if vocab_size is None else taken("vocab_size", vocab_size, whole_number)
        told = "" if log is model else remark_on_tables(str(model), log.header.config, log.header.unicode)
        if told:
            warnings.warn(told, TablesDiffer, stacklevel=2)
        self._log, self._vocab_size = log, size
        self._encoder = encoder = Encoder(log, size)
        learned = encoder.model
        self._specials: dict[str, int] = dict(learned.special_ids)
        self._every_special = frozenset(self._specials)
        codec = self._codec = encoder.codec
        stops = set(encoder.stop_ids.values())
        self._bytes_of = {number: text.encode() for text, number in self._specials.items()}
        self._parts: dict[int, bytes] = {}  # contents of the tokens that say something only beside others
        for number, log_id in learned.log_id.items():
            content = learned.content(log_id)
            if log_id not in stops and not codec.is_text(content):
                self._parts[number] = content
            else:
                self._bytes_of[number] = content if log_id in stops else codec.text_bytes(content)

    # Making one.

    @classmethod
    def from_file(
        cls, file: str | os.PathLike[str], *, pattern: str | None = None, special: str | Sequence[str] = ()
    ) -> Tokenizer:
        """The tokenizer of a vocabulary made elsewhere, as `streambpe import` reads it: tokenizer.json, tiktoken ranks
        (which need a pattern), a .model file, hf:NAME, tiktoken:NAME."""
        return cls(import_module(f"{_FORMATS}.imports").import_file(file, pattern=pattern, specials=several(special)))

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer of a folder with a tokenizer.json, or of a model in Hugging Face's cache."""
        return cls.from_file(f"hf:{os.fspath(name)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self._log, self._vocab_size)

    def __copy__(self) -> Tokenizer:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tokenizer:
        return self

    def __len__(self) -> int:
        return self.n_vocab

    @overload
    def __call__(self, text: str) -> list[int]: ...
    @overload
    def __call__(self, text: list[str] | tuple[str, ...]) -> list[list[int]]: ...
    def __call__(self, text: str | list[str] | tuple[str, ...]) -> list[int] | list[list[int]]:
        """`encode` of a text, `encode_batch` of several."""
        return self.encode(text) if isinstance(text, str) else self.encode_batch(text)

    def show(self, text: str) -> ColouredTokens:
        """The tokens of a text: in colours in a notebook, else between bars; special tokens count as such."""
        ids = self.encode(text, allowed_special="all")
        return ColouredTokens(ids, self.decode_tokens_bytes(ids))

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>{self.show(_SAMPLE)._repr_html_()}"

    def __repr__(self) -> str:
        return f"<Tokenizer {self._encoder.pattern.name} n_vocab={self.n_vocab}>"

    def export(self, to: str, output: str | os.PathLike[str], **options: Any) -> list[Any]:
        """Write the model for another program, as `streambpe export` does: tok.export("hf", "my-tokenizer/")."""
        results: list[Any] = import_module(f"{_FORMATS}.export").export(
            self._log, to, output, vocab_size=self._vocab_size or (), **options
        )
        return results

    def save(self, output: str | os.PathLike[str]) -> None:
        """Write the event log, which `Tokenizer(output)` reads."""
        self.export("events", output, compare=False)

    def to_hf(self) -> Any:
        """The same as a fast tokenizer of transformers, in memory."""
        transformers = need("transformers", "to_hf()")
        with tempfile.TemporaryDirectory(prefix="streambpe-hf-") as folder:
            self.export("hf", folder, compare=False)
            return transformers.AutoTokenizer.from_pretrained(folder)

    # Facts.

    @property
    def n_vocab(self) -> int:
        """How many ids there are, reserved ones too."""
        return self._encoder.model.n_vocab

    vocab_size = n_vocab

    def get_vocab_size(self) -> int:
        """How many ids there are, as n_vocab."""
        return self.n_vocab

    @property
    def max_token_value(self) -> int:
        """The largest id; n_vocab - 1, except in models whose first id is not 0."""
        return self._encoder.model.n_vocab - 1 + self._encoder.model.alphabet.first_id

    @property
    def event_log(self) -> EventLog:
        """What the model is."""
        return self._log

    @property
    def encoder(self) -> Encoder:
        """The working parts, for corpora, exports and `explain`."""
        return self._encoder

    @property
    def special_tokens_set(self) -> set[str]:
        """The texts of the special tokens."""
        return set(self._specials)

    @property
    def special_tokens(self) -> dict[str, int]:
        """Text of each special token -> its id."""
        return dict(self._specials)

    @property
    def eot_token(self) -> int:
        """The id of `<|endoftext|>`, or of the only special token there is."""
        if "<|endoftext|>" in self._specials:
            return self._specials["<|endoftext|>"]
        if len(self._specials) == 1:
            return next(iter(self._specials.values()))
        raise KeyError(
            f"The model has no special token <|endoftext|>; it has {', '.join(self._specials) or 'none'}. "
            f"Train with --special '<|endoftext|>'."
        )

    def get_vocab(self) -> dict[bytes, int]:
        """The bytes of every token -> its id, special tokens too. Bytes, since a token may be part of a character."""
        return dict(sorted(self._id_of_bytes.items(), key=lambda entry: entry[1]))

    def token_to_id(self, token: str | bytes) -> int | None:
        """The id of the token with this text or these bytes (" the", as it is written); None if there is none."""
        if not isinstance(token, str | bytes):
            raise TypeError(f"token={token!r:.80}: a str or bytes are expected.")
        return self._id_of_bytes.get(token.encode() if isinstance(token, str) else token)

    def id_to_token(self, number: int) -> bytes | None:
        """The bytes of an id; None if it stands for nothing."""
        if not isinstance(number, SupportsIndex):
            raise TypeError(f"number={number!r:.80}: a whole number is expected.")
        try:
            return self.decode_single_token_bytes(number)
        except KeyError:
            return None

    def is_special_token(self, token: int) -> bool:
        """Whether an id is a special token's."""
        return token in self._specials.values()

    def token_byte_values(self) -> list[bytes]:
        """The bytes of all ordinary tokens, in id order; U+FFFD for SCRIPT symbols that make no character."""
        return self.decode_tokens_bytes(sorted(self._encoder.model.log_id))

    # Encoding.

    def encode(
        self, text: str, *, allowed_special: Specials = frozenset(), disallowed_special: Disallowed = "all"
    ) -> list[int]:
        """Text -> ids. A special token in the text is its id if allowed, a ValueError if disallowed, else text."""
        allowed = self._allowed(text, allowed_special, disallowed_special)
        if not allowed:
            return self.encode_ordinary(text)
        ids: list[int] = []
        for part, number in self._cut_specials(text, allowed):
            ids += self.encode_ordinary(part)
            if number >= 0:
                ids.append(number)
        return ids

    def encode_ordinary(self, text: str) -> list[int]:
        """Text -> ids; whatever looks like a special token is ordinary text."""
        return self._encoder.id_list(as_utf8(text))

    def encode_with_offsets(
        self, text: str, unit: Literal["characters", "bytes"] = "characters"
    ) -> tuple[list[int], list[int]]:
        """(ids as of `encode`, where each begins in the text); a ValueError where the model changes the text."""
        ids = self.encode(text)
        decoded, offsets = self.decode_with_offsets(ids, unit)
        if decoded != text:
            raise ValueError("The model changes this text, so its tokens have no offsets in it.")
        return ids, offsets

    def _allowed(self, text: str, allowed: Specials, disallowed: Disallowed) -> frozenset[str]:
        """The special tokens that a text may hold as such; an error if it holds one that is disallowed."""
        if not isinstance(text, str):
            raise TypeError(f"text={text!r:.80}: a str is expected.")
        every = self._every_special
        if allowed == disallowed == "all":
            return every
        if not (allowed or disallowed) or (disallowed == "all" and not (every and _any_of(every).search(text))):
            return frozenset()
        wanted = every if allowed == "all" else every & set(allowed)
        refused = every - wanted if disallowed == "all" else frozenset(disallowed)
        if refused and (match := _any_of(refused).search(text)):
            found = match.group()
            raise ValueError(
                f"The text holds the special token {found!r} at character {match.start()}. If it is meant, pass "
                f"allowed_special={{{found!r}}}; if it is ordinary text, pass "
                f"disallowed_special=(tok.special_tokens_set - {{{found!r}}}), or () to treat all of them as text."
            )
        return wanted

    def _may_hold_specials(self, texts: list[str], allowed: Specials, disallowed: Disallowed) -> bool:
        """Whether `_allowed` may find anything in these texts: many are searched at once."""
        if disallowed and disallowed != "all":
            return True
        asked = self._specials and (allowed or disallowed)
        return bool(asked) and any(_any_of(self._every_special).search("\0".join(some)) for some in in_groups(texts))

    def _cut_specials(self, text: str, allowed: frozenset[str]) -> Iterator[tuple[str, int]]:
        """(ordinary text, id of the special token behind it, -1 at the end)."""
        at = 0
        for match in _any_of(allowed).finditer(text) if allowed else ():
            yield text[at : match.start()], self._specials[match.group()]
            at = match.end()
        yield text[at:], -1

    def encode_to_numpy(
        self, text: str, *, allowed_special: Specials = frozenset(), disallowed_special: Disallowed = "all"
    ) -> npt.NDArray[np.uint32]:
        """As `encode`, as an array of 32-bit numbers."""
        allowed = self._allowed(text, allowed_special, disallowed_special)
        if not allowed:
            return self._encoder.block(as_utf8(text))[0].body.view(np.uint32)
        return self.encode_batch_to_numpy([text], num_threads=1, allowed_special=allowed, disallowed_special=())[0]

    def encode_batch(
        self,
        text: Sequence[str],
        *,
        num_threads: int | None = None,
        allowed_special: Specials = frozenset(),
        disallowed_special: Disallowed = "all",
    ) -> list[list[int]]:
        """`encode` over many texts; many and long ones are encoded in blocks, on `num_threads` (default: all cores)."""
        ids, offsets = self.encode_batch_to_numpy(
            text, num_threads=num_threads, allowed_special=allowed_special, disallowed_special=disallowed_special
        )
        with uncollected():
            numbers = ids.tolist()
            return [numbers[start:end] for start, end in pairwise(offsets.tolist())]

    def encode_ordinary_batch(self, text: Sequence[str], *, num_threads: int | None = None) -> list[list[int]]:
        """`encode_ordinary` over many texts."""
        return self.encode_batch(text, num_threads=num_threads, disallowed_special=())

    def encode_batch_to_numpy(
        self,
        text: Sequence[str],
        *,
        num_threads: int | None = None,
        allowed_special: Specials = frozenset(),
        disallowed_special: Disallowed = "all",
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """As `encode_batch`, as two arrays: (ids of all texts, offsets). Text i has ids[offsets[i]:offsets[i + 1]]."""
        texts, behind = _texts(text), []  # behind each text, the special token that was cut off there; -1: none
        if self._may_hold_specials(texts, allowed_special, disallowed_special):
            parts = [
                part
                for one in texts
                for part in self._cut_specials(one, self._allowed(one, allowed_special, disallowed_special))
            ]
            texts, behind = [part for part, _ in parts], [number for _, number in parts]
        stream = encode_texts(self._encoder, texts, num_threads or usable_cores())
        ends = np.flatnonzero(stream == END_OF_TEXT)
        if behind:
            stream[ends] = behind
            ends = ends[stream[ends] < 0]
        offsets = np.append(0, ends - np.arange(len(ends)))
        return np.delete(stream, ends).view(np.uint32), offsets

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of the token with exactly this text or these bytes; KeyError if there is none."""
        content = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        return self._id_of_bytes[content]

    @functools.cached_property
    def _id_of_bytes(self) -> dict[bytes, int]:
        return {content: number for number, content in sorted(self._bytes_of.items(), reverse=True)}

    def encode_stream(self, texts: Iterable[str]) -> Iterator[int]:
        """The ids of one text that comes in pieces, each as soon as nothing that follows can change it.

        Under a pattern without certain borders (`none`, a regular expression of one's own) that is at the end.
        """
        stream = self.stream_encoder()
        for text in texts:
            yield from stream.feed(text)
        yield from stream.finish()

    def stream_encoder(self) -> StreamEncoder:
        """For text in pieces: `feed` each piece, then `finish`; special tokens are ordinary text."""
        return StreamEncoder(self.encoder)

    # Decoding.

    def decode_bytes(self, tokens: Iterable[int]) -> bytes:
        """Ids -> bytes, exactly. KeyError names an id that the model does not have."""
        return self._decode_bytes(tokens, "replace")

    def _decode_bytes(self, tokens: Iterable[int], errors: DecodeErrors) -> bytes:
        if isinstance(tokens, (list, np.ndarray)) and len(tokens) >= _MANY:
            data = self._decoder.decode(tokens)
            if data is not None:
                return data
        if not isinstance(tokens, list):
            tokens = tokens.tolist() if isinstance(tokens, np.ndarray) else _listed("tokens", tokens, "ids")
        try:
            return b"".join(map(self._bytes_of.__getitem__, tokens))
        except TypeError:  # what cannot be a key
            raise TypeError(f"tokens={tokens!r:.80}: each id is a whole number.") from None
        except KeyError as error:
            if error.args[0] not in self._parts:
                raise self._no_such_token(error.args[0]) from None
        decoded: list[bytes] = []
        # no character reaches into a token that is text by itself, so stretches of the others stand alone
        for is_part, stretch in groupby(tokens, self._parts.__contains__):
            if is_part:
                contents = b"".join(map(self._parts.__getitem__, stretch))
                decoded.append(self._codec.text_bytes(contents, errors))
            else:
                decoded += map(self.decode_single_token_bytes, stretch)
        return b"".join(decoded)

    @functools.cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self._bytes_of)

    def decode(self, tokens: Iterable[int], errors: str = "replace") -> str:
        """Ids -> text; bytes that are no UTF-8, and SCRIPT symbols that make no character, become U+FFFD, or are a
        ValueError with errors="strict"."""
        strict: DecodeErrors = "strict" if errors == "strict" else "replace"
        return self._as_text(self._decode_bytes(tokens, strict).decode("utf-8", errors))

    def decode_document(self, tokens: Iterable[int]) -> bytes:
        """The bytes of a document as `decode_bytes` gives them; under --pattern whitespace marks become spaces."""
        data = self.decode_bytes(tokens)
        return self._as_text(data.decode("utf-8", "replace")).encode() if self._encoder.pattern.word_mark else data

    def _as_text(self, text: str) -> str:
        if self._encoder.pattern.name == "whitespace":
            return text.replace(WORD_MARK, " ").strip()
        return text

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of one id; U+FFFD for SCRIPT symbols that make no character."""
        try:
            return self._bytes_of[token]
        except KeyError:
            if token in self._parts:
                return self._codec.text_bytes(self._parts[token])
            raise self._no_such_token(token) from None

    def part_content(self, token: int) -> bytes | None:
        """The content of a token that says something only beside others; None for all other ids."""
        return self._parts.get(token)

    def decode_tokens_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """The bytes of each id."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(
        self, tokens: Iterable[int], unit: Literal["characters", "bytes"] = "characters"
    ) -> tuple[str, list[int]]:
        """(the text, where each token begins in it). A token that begins inside a character counts from that
        character's start. The ids must spell valid UTF-8."""
        utf8, stream = codecs.getincrementaldecoder("utf-8")(), self.stream_decoder()
        text: list[str] = []
        offsets: list[int] = []
        at = 0
        for token in tokens:
            offsets.append(at)
            data = stream.bytes_with(token, "strict")
            text.append(utf8.decode(data))
            at += len(data if unit == "bytes" else text[-1])
        text.append(utf8.decode(stream.rest("strict"), final=True))
        return "".join(text), offsets

    def decode_batch(
        self, batch: Sequence[Iterable[int]], *, errors: str = "replace", num_threads: int | None = None
    ) -> list[str]:
        """`decode` over many lists."""
        return list(in_order(lambda ids: self.decode(ids, errors), batch, max(1, num_threads or 1)))

    def decode_bytes_batch(self, batch: Sequence[Iterable[int]], *, num_threads: int | None = None) -> list[bytes]:
        """`decode_bytes` over many lists."""
        return list(in_order(self.decode_bytes, batch, max(1, num_threads or 1)))

    def decode_stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Text as the ids come in, never a part of a character; ends with U+FFFD if the last is cut off."""
        stream = self.stream_decoder()
        for token in tokens:
            if text := stream.feed(token):
                yield text
        if text := stream.finish():
            yield text

    def stream_decoder(self) -> StreamDecoder:
        """For ids one by one: `feed` gives the text that is complete, `finish` the rest."""
        return StreamDecoder(self.encoder, self.part_content, self.decode_single_token_bytes)

    def _no_such_token(self, token: object) -> KeyError:
        first = self._encoder.model.alphabet.first_id
        what = "is reserved and stands for no text" if token in range(first, first + self.n_vocab) else "does not exist"
        return KeyError(f"id {token!r} {what}; the model has ids {first} to {first + self.n_vocab - 1}")


def _texts(texts: Iterable[str]) -> list[str]:
    """A list of the texts; one text alone would be taken letter by letter."""
    listed = _listed("text", texts, "texts")
    if not all(isinstance(text, str) for text in listed):
        raise TypeError(f"text={listed!r:.80}: each text is a str.")
    return listed


def _listed(name: str, several: Iterable[T], what: str) -> list[T]:
    if isinstance(several, str | bytes) or not isinstance(several, Iterable):
        raise TypeError(f"{name}={several!r:.80}: a list of {what} is expected.")
    return list(several)


@functools.lru_cache(maxsize=128)
def _any_of(texts: frozenset[str]) -> re.Pattern[str]:
    """Matches any of the texts, the longest first."""
    return re.compile(_tree(sorted(texts)))


def _tree(texts: list[str], depth: int = 0) -> str:
    """An expression of sorted texts in which no two ways begin alike, so that thousands of texts are tried as one."""
    if depth == _DEEPEST:
        return f"(?:{'|'.join(re.escape(text) for text in sorted(texts, key=len, reverse=True))})"
    ways = []
    for _, group in groupby(filter(None, texts), key=lambda text: text[0]):
        alike = list(group)
        first, last = alike[0], alike[-1]  # what these share, all share
        shared = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        rest = [text[shared:] for text in alike]
        ways.append(re.escape(first[:shared]) + (_tree(rest, depth + 1) if len(rest) > 1 else ""))
    return f"(?:{'|'.join(ways)}){'' if texts[0] else '?'}"
