"""As much of an Encoder as blocks need, small enough to hand to other processes: its arrays, not model and events."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any, Protocol

from streambpe.core.encoding import CACHE_BYTES, NO_LIMIT, EncoderCore, Ids, ModelTables, SymbolRefused
from streambpe.encode.encoder import Encoder, prepared_text
from streambpe.model.codecs import codec_for
from streambpe.model.eventlog import Header
from streambpe.store.models import encoding_pattern
from streambpe.text.chunker import core_split
from streambpe.text.patterns import Pattern


class BlockCores(Protocol):
    """What encodes blocks; an Encoder is one."""

    @property
    def pattern(self) -> Pattern:
        """What text is split by."""

    @property
    def prepares(self) -> bool:
        """Whether text may be changed, or refused, before it is split."""

    def prepare(self, text: bytes) -> tuple[bytes, int]:
        """Text ready to be split, and how many characters were dropped."""

    def core(self, cache_bytes: int | None = None, limit: int = NO_LIMIT) -> EncoderCore:
        """An encoder to model ids for one thread."""

    def joined(self, stream: Ids) -> Ids:
        """A stream of log ids with WHOLE set on whole chunks -> model ids with superwords joined."""

    def certain(self, run: Ids) -> int:
        """How much of an open run is joined the same whatever follows."""

    def refused(self, why: Exception, texts: Iterable[bytes]) -> Exception:
        """The error for what the core refused."""


class PackedEncoder:
    """A BlockCores that can be pickled. What a deleted token is called, only the Encoder itself can tell."""

    def __init__(self, header: Header, stop_words: Collection[str], tables: ModelTables) -> None:
        self.header, self.stop_words, self.tables = header, stop_words, tables

    @classmethod
    def of(cls, encoder: Encoder) -> PackedEncoder:
        """The same encoder, packed."""
        return cls(encoder.header, frozenset(encoder.stop_ids), encoder.named_tables)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.tables.split_by(core_split(self.pattern))

    @cached_property
    def pattern(self) -> Pattern:
        """See BlockCores."""
        return encoding_pattern(self.header.config)

    @property
    def prepares(self) -> bool:
        """See BlockCores."""
        config = self.header.config
        return bool(config.get("normalize", "none") != "none" or config.get("unencodable", "bytes") != "bytes")

    def prepare(self, text: bytes) -> tuple[bytes, int]:
        """See BlockCores."""
        config = self.header.config
        return prepared_text(text, config.get("normalize", "none"), config.get("unencodable", "bytes"))

    def core(self, cache_bytes: int | None = None, limit: int = NO_LIMIT) -> EncoderCore:
        """See BlockCores."""
        return EncoderCore(self.tables, CACHE_BYTES if cache_bytes is None else cache_bytes, limit)

    def joined(self, stream: Ids) -> Ids:
        """See BlockCores."""
        return self.core(cache_bytes=1 << 16).joined(stream)

    def certain(self, run: Ids) -> int:
        """See BlockCores."""
        return self.core(cache_bytes=0).certain(run)

    def refused(self, why: Exception, texts: Iterable[bytes]) -> Exception:
        """See BlockCores."""
        codec = codec_for(self.header)
        for text in texts if isinstance(why, SymbolRefused) else ():
            for chunk in self.pattern.split(text.decode()):
                if chunk not in self.stop_words:
                    codec.split(chunk)
        return why
