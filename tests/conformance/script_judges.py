"""SCRIPT-BPE, and the tables that vectors hold beside trainings: patterns, pieces, blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import regex

from streambpe.model.alphabet import bytes_alphabet, script_alphabet
from streambpe.model.script import INDEX_SYMBOLS, decode_symbols, encode_text, symbol_table
from streambpe.text.patterns import find_pattern
from streambpe.text.prepare import prepare
from tests import oracles
from tests.conformance.golden import Params, Vector, find_chunks, pattern_named, script_aware_chunks
from tests.conformance.verdicts import Claim, Row, Verdict, tokens_hex
from tests.hostile import buffer_of, fast_documents
from tests.oracles.replay import encode_chunks, to_model_ids
from tests.oracles.splits import split_by_rules
from tests.oracles.symbols import symbols_of

# What a pretokenizer's name has between its kind and "_cb": the pattern that cuts; none is the script rules.
PATTERNS = {"gpt2": "gpt2", "gpt4": "gpt4_classic", "gpt4o": "gpt4o"}
NO_SPLIT = r"\A.*\Z"
NORMALIZED = "NFC after removal of characters absent from Scripts-16.0.0"
LONGEST = 10_000_000  # base tokens; a longer chunk takes no part


def prepared(text: str) -> str:
    """As the reference prepares a text: characters outside its table leave, then NFC."""
    return prepare(text.encode(), "nfc", "drop")[0].decode()


@dataclass(frozen=True)
class Pretokenizer:
    """`bytes_gpt4o_cb`, `scriptenc`, `scriptenc_gpt4o`, ...: how text is prepared, cut and spelled."""

    script: bool
    pattern: str | None  # None: the script rules
    whole_characters: bool

    @classmethod
    def of(cls, params: Params) -> Pretokenizer:
        """As the parameters name it; `regex` is a pattern that has no name."""
        kind, *rest = params["pretokenizer"].removesuffix("_cb").split("_")
        if kind not in ("bytes", "scriptenc") or len(rest) > 1 or (kind == "bytes" and not rest):
            raise ValueError(f"no judge knows the pretokenizer {params['pretokenizer']}")
        named = rest[0] if rest else None
        pattern = params.get("regex")
        if pattern is None and named is not None:
            pattern = NO_SPLIT if named == "nosplit" else pattern_named(PATTERNS[named])
        return cls(kind == "scriptenc", pattern, bool(params["enforce_char_boundaries"]))

    def cut(self, text: str) -> list[str]:
        """The chunks of a text that is prepared."""
        if self.pattern is None:
            return split_by_rules(text)
        return [chunk.decode() for chunk in find_chunks(self.pattern, text, flags=regex.DOTALL)]

    @property
    def may_merge(self) -> Callable[..., bool] | None:
        """The rule of --whole-characters, where it holds."""
        if not self.whole_characters:
            return None
        return oracles.whole_characters_script(INDEX_SYMBOLS) if self.script else oracles.whole_characters_bytes

    def claims(self, params: Params, base_tokens: int) -> list[Claim]:
        """What the parameters say beside the training itself."""
        return [
            Claim("normalization", NORMALIZED, params["normalization"]),
            Claim("cb", params["pretokenizer"].endswith("_cb"), self.whole_characters),
            Claim("base_tokens", base_tokens, params["base_tokens"]),
            Claim("first_merge_id", base_tokens + 1, params["first_merge_id"]),
        ]


def judge_script(vector: Vector) -> Verdict:
    """Events, counts, the corpus as it was counted, and encodings, over bytes or script symbols."""
    params, way = vector.params, Pretokenizer.of(vector.params)
    alphabet = script_alphabet("drop") if way.script else bytes_alphabet(first_id=1)
    chunks = oracles.count_chunks(
        [[chunk.encode() for chunk in way.cut(prepared(document))] for document in vector.documents]
    )
    sizes = {chunk: len(symbols_of(alphabet, chunk)) for chunk in chunks}
    taken = {chunk: n for chunk, n in chunks.items() if sizes[chunk] <= LONGEST}
    training = oracles.train_words(
        taken, alphabet, len(alphabet) + params["additional_vocab_size"], may_merge=way.may_merge
    )
    final, vocabulary = training.corpus.token_counts, training.vocabulary
    events = []
    for event, detail in zip(training.events, training.details, strict=True):
        assert detail is not None
        token = vocabulary[event.id]
        text = decode_symbols(token.base) if way.script else token.content.decode(errors="replace")
        events.append(["m", *event.pair, event.id, detail.merged, final[event.id], text.encode().hex()])
    model = oracles.as_model(training)

    def encode(row: Row) -> dict[str, Any]:
        mine = way.cut(prepared(row["text"]))
        log_ids = encode_chunks(model, [chunk.encode() for chunk in mine])
        base = [list(model.vocabulary[number].base) for number in log_ids]
        found = {"chunks": mine, "ids": to_model_ids(model, log_ids), "base": base}
        if way.script:
            return found | {"decoded": decode_symbols(symbol for token in base for symbol in token)}
        content = b"".join(model.content(number) for number in log_ids)
        return found | {"tok": tokens_hex(model, log_ids), "decoded": content.decode(errors="replace")}

    corpus = vector.data.get("corpus", {})
    seen = {
        "docs": len(vector.documents),
        "base_tokens": sum(sizes[chunk] * n for chunk, n in chunks.items()),
        "chunks": chunks.total(),
        "chunks_skipped": chunks.total() - sum(taken.values()),
        "unique_chunks": len(taken),
        "max_length": LONGEST,
    }
    verdict = Verdict(way.claims(params, len(alphabet)), encode)
    verdict.claims.append(
        Claim("corpus", *({key: side[key] for key in seen if key in corpus} for side in (seen, corpus)))
    )
    verdict.claim(vector, "events", events)
    return verdict


# Tables

# fastboundlessbpe's default scripts without spaces; vectors of trainings list theirs.
SCRIPTS = ("Han", "Hiragana", "Katakana", "Thai", "Myanmar", "Khmer", "Lao")


def judge_pretokenization(vector: Vector) -> Verdict:
    """The cases under the patterns as they stand: shows that this `regex` splits as the vectors' did."""
    data = vector.data
    verdict = Verdict()
    for name, pattern in data["patterns"].items():
        ours = [[c.decode() for c in find_chunks(pattern, text)] for text in data["cases"]]
        verdict.claims.append(Claim(f"pieces[{name}]", ours, data["pieces"][name]))
    for name, theirs in data["script_aware"].items():
        main, special = (data["patterns"][part] for part in name.split(" (")[0].split(" + "))
        ours = [[c.decode() for c in script_aware_chunks(main, special, SCRIPTS, t)] for t in data["cases"]]
        verdict.claims.append(Claim(f"script_aware[{name}]", ours, theirs))
    for column, name in enumerate(data["eligibility"]["columns"][1:], 1):
        matches = oracles.text_matches(data["eligibility"]["patterns"][name])
        rows = data["eligibility"]["rows"]
        ours_eligible = [matches(row[0].encode()) for row in rows]
        verdict.claims.append(Claim(f"eligibility[{name}]", ours_eligible, [row[column] for row in rows]))
    return verdict


def judge_script_pieces(vector: Vector) -> Verdict:
    """The SCRIPT rules on the cases: what is normalised, the pieces, their base symbols."""
    theirs = vector.data["script_rule_based"]
    normalized = [prepared(text) for text in vector.data["cases"]]
    verdict = Verdict()
    for name, split in (("slow", split_by_rules), ("core", split_by_the_core)):
        rows = [
            {"normalized": text, "pieces": split(text), "base": [encode_text(piece) for piece in split(text)]}
            for text in normalized
        ]
        verdict.claims.append(Claim(f"script_rule_based, {name}", rows, theirs))
    return verdict


def split_by_the_core(text: str) -> list[str]:
    return fast_documents(buffer_of(text), find_pattern("script"))[0]


def judge_script_blocks(vector: Vector) -> Verdict:
    """The table of blocks, row for row, with the digests of their characters."""
    rows = []
    for block in symbol_table().blocks:
        listed = [f"{point:04X}" for point in block.characters]
        digest = hashlib.sha256(" ".join(listed).encode()).hexdigest()[:16]
        place = [block.symbol, block.symbol - block.sub_block - 1, block.script, block.supercategory, block.sub_block]
        rows.append([*place, len(listed), listed[0], listed[-1], digest])
    verdict = Verdict()
    verdict.claim(vector, "blocks", rows)
    verdict.claim(vector, "num_blocks", len(rows))
    verdict.claim(vector, "num_index_tokens", INDEX_SYMBOLS)
    return verdict
