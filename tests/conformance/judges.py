"""Who judges which vector, and how: the table JUDGES at the end.

A judge learns what the vector's reference learned and states its claims: pairs of what we say
and what the vector says, field by field, and a way to encode the vector's texts. The slow
reference judges every system; a further judge (a faster engine) is a further row: it may
claim less, but whatever it claims must be equal.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import polars as pl

from streambpe.encode.alphabet import (
    bytes_alphabet,
    gpt2_alphabet,
    seen_alphabet,
    utf8_alphabet,
)
from streambpe.encode.encoder import Encoder
from streambpe.encode.eventlog import EventLog, Header, Op, Special, StopWord
from streambpe.encode.prepare import prepare
from streambpe.encode.replay import Model
from streambpe.encode.script import INDEX_SYMBOLS, decode_symbols, encode_text, script_alphabet, symbol_table
from streambpe.encode.script_rules import ScriptRules, split_by_rules
from streambpe.train import reference
from streambpe.train.reference.picky import SPECIALS, WORD_START
from tests.conformance.golden import (
    Vector,
    find_chunks,
    nfc,
    pattern_named,
    pretokenizer_chunks,
    script_aware_chunks,
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """We say `ours` about `field`; the vector says `theirs`."""

    field: str
    ours: Any
    theirs: Any


@dataclass
class Verdict:
    """Everything a judge can say about one vector."""

    claims: list[Claim] = field(default_factory=list)
    encode: Callable[[Row], dict[str, Any]] | None = None  # a vector's text -> its "tok" and "ids"
    not_judged: str | None = None  # what was left out and why; reported, never passed over

    def claim(self, vector: Vector, name: str, ours: Any) -> None:
        """Claim a field the vector may or may not have."""
        if name in vector.data:
            self.claims.append(Claim(name, ours, vector.data[name]))


def tokens_hex(model: Model, log_ids: list[int]) -> list[str]:
    return [model.content(number).hex() if number >= 0 else b"<UNK>".hex() for number in log_ids]


def model_of(training: reference.Training, **header: Any) -> Model:
    vocabulary = training.vocabulary
    stop_words = tuple(StopWord(number, chunk) for chunk, number in vocabulary.stop_ids.items())
    return Model(
        EventLog(Header(vocabulary.alphabet.to_header(), stop_words=stop_words, **header), tuple(training.events))
    )


def encoder(
    model: Model, cut: Callable[[str], list[bytes]], drop_unknown: bool = False
) -> Callable[[Row], dict[str, Any]]:
    """Encode a text by replay; a token without a model id makes ids None, as the vectors write it.

    The fast encoder, chunk by chunk and in arrays, has to agree with replay on every text.
    """
    config = {**model.header.config, **({"unknown": "drop"} if drop_unknown else {})}
    fast = Encoder(EventLog(replace(model.header, config=config), tuple(model.events)))

    def encode(row: Row) -> dict[str, Any]:
        chunks = cut(row["text"])
        log_ids = model.encode_chunks(chunks, unknown="drop" if drop_unknown else None)
        texts = [chunk.decode() for chunk in chunks]
        stream, _ = fast.encode_distinct(pl.Series(texts, dtype=pl.String))
        assert (fast.join_stream(stream) if fast.has_superwords else stream).tolist() == log_ids
        assert model.join_chunks(map(fast.encode_chunk, texts)) == log_ids
        try:
            ids: list[int] | None = model.to_model_ids(log_ids)
        except KeyError:
            ids = None
        return {"tok": tokens_hex(model, log_ids), "ids": ids}

    return encode


def contents(training: reference.Training, *numbers: int) -> list[str]:
    return [training.vocabulary[number].content.hex() for number in numbers]


def living(training: reference.Training) -> list[str]:
    return contents(training, *training.vocabulary.living)


def superword_flags(training: reference.Training) -> list[list[Any]]:
    """[content, 1 if the token's latest birth was a supermerge] in model id order."""
    flags: dict[int, int] = {}
    for event in training.events:
        if event.op is Op.DELETE:
            flags.pop(event.id, None)
        else:
            flags.setdefault(event.id, int(event.op is Op.SUPERMERGE))
    vocabulary = training.vocabulary
    return [[vocabulary[number].content.hex(), flags.get(number, 0)] for number in vocabulary.living]


# Plain BPE


def judge_minbpe(vector: Vector) -> Verdict:
    params = vector.params
    chunks = Counter(find_chunks(params["pattern"], vector.text))
    training = reference.train_words(chunks, bytes_alphabet(), params["vocab_size"], ties="first-seen")
    verdict = Verdict(encode=encoder(model_of(training), lambda text: find_chunks(params["pattern"], text)))
    verdict.claim(
        vector,
        "events",
        [["m", *contents(training, *e.pair), e.n, *e.pair, e.id] for e in training.events],
    )
    return verdict


def judge_hf(vector: Vector) -> Verdict:
    params = vector.params
    documents = [find_chunks(params["pattern"], document) for document in vector.documents]
    chunks = reference.count_chunks(documents)
    all_bytes = params["initial_alphabet"] == "all 256 bytes"
    training = reference.train_words(
        chunks,
        gpt2_alphabet() if all_bytes else seen_alphabet(chunks),
        params["vocab_size"],
        min_frequency=max(1, params["min_frequency"]),
    )
    model = model_of(training)
    verdict = Verdict(encode=encoder(model, lambda text: find_chunks(params["pattern"], text), not all_bytes))
    verdict.claim(vector, "events", [["m", *contents(training, *e.pair), e.n] for e in training.events])
    verdict.claim(vector, "vocab", living(training))
    return verdict


def judge_batchbpe(vector: Vector) -> Verdict:
    params = vector.params
    counts = Counter(find_chunks(params["pattern"], vector.text))
    stop_words = reference.choose_stop_words(counts, params["stop_list_size"], ties="first-seen")
    training = reference.train_batches(
        reference.cut_off(counts, params["freq_cutoff"]),
        bytes_alphabet(),
        params["vocab_size"],
        overlaps="all" if "Quick" in vector.system else "disjoint",
        cap_divisor=params["cap_divisor"],
        max_batch_size=params["max_batch_size"],
        stop_words=stop_words,
    )
    batch_of = [number for number, size in enumerate(training.batch_sizes) for _ in range(size)]
    verdict = Verdict(encode=encoder(model_of(training), lambda text: find_chunks(params["pattern"], text)))
    verdict.claim(
        vector,
        "events",
        [
            ["m", *contents(training, *e.pair), e.n, *e.pair, e.id, batch]
            for e, batch in zip(training.events, batch_of, strict=True)
        ],
    )
    verdict.claim(vector, "stop_words", [[chunk.hex(), n] for chunk, n in training.vocabulary.stop_ids.items()])
    verdict.claim(vector, "batch_sizes", training.batch_sizes)
    return verdict


# PickyBPE, both kinds


def judge_picky_char(vector: Vector) -> Verdict:
    params = vector.params
    words = reference.marked_words(vector.text.split("\n"))
    alphabet = reference.covering_alphabet(words, params["coverage"])
    deletions = reference.Deletions.at(params["threshold"], delete_to="walk", picky=True)
    training = reference.train_words(
        words,
        alphabet,
        params["vocab_size"],
        ties="bytes",
        deletions=deletions,
        other_ids=len(SPECIALS),
    )
    offset = len(SPECIALS)  # this system numbers its special tokens first
    events: list[list[Any]] = []
    for event, detail in zip(training.events, training.details, strict=True):
        if detail is None:
            into = contents(training, *event.into)
            events.append(["d", *contents(training, event.id), into, event.id + offset])
        else:
            pair = contents(training, *event.pair)
            events.append(["m", *pair, event.n, detail.merged, event.id + offset])
    specials = [text.encode().hex() for text in SPECIALS]
    model = model_of(
        training,
        config={"token_order": "first-birth", "specials_first": True},
        unk="<UNK>",
        specials=tuple(Special(text, number) for number, text in enumerate(SPECIALS)),
    )
    verdict = Verdict(encode=encoder(model, lambda text: [(WORD_START + word).encode() for word in text.split()]))
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "initial", specials + [symbol.hex() for symbol in alphabet.symbols])
    verdict.claim(vector, "present_size", training.size)
    verdict.claim(vector, "vocab", specials + contents(training, *sorted(training.vocabulary.living)))
    return verdict


def kensho_deletions(params: dict[str, Any]) -> reference.Deletions:
    delete_to: Any = "bytes" if params["blowup"] else "pair"
    return reference.Deletions.at(params["tau"], delete_to, ask_twice=True)


def word_events(training: reference.Training) -> list[list[Any]]:
    """Word phase events as fastboundlessbpe's vectors write them."""
    events: list[list[Any]] = []
    for event, detail in zip(training.events, training.details, strict=True):
        if detail is None:
            events.append(["d", *contents(training, event.id), contents(training, *event.into), event.n])
        else:
            counts = [event.n, detail.count_left, detail.count_right]
            events.append(["m", *contents(training, *event.pair), *counts, int(detail.completed)])
    return events


def judge_kensho_words(vector: Vector) -> Verdict:
    params = vector.params
    documents = [pretokenizer_chunks(params["pretokenizer"], document) for document in vector.documents]
    training = reference.train_words(
        reference.count_chunks(documents),
        utf8_alphabet(),
        params["vocab_size"],
        ties="bytes",
        overlaps="disjoint",
        deletions=kensho_deletions(params),
    )
    model = model_of(training)
    verdict = Verdict(encode=encoder(model, lambda text: pretokenizer_chunks(params["pretokenizer"], text)))
    verdict.claim(vector, "events", word_events(training))
    verdict.claim(vector, "vocab", superword_flags(training))
    return verdict


# Superwords


def judge_kensho_superwords(vector: Vector) -> Verdict:
    params = vector.params
    config, word_phase = params["pretokenizer"], params["word_phase"]
    superbpe = "SuperBpeTrainer" in vector.system
    documents = [pretokenizer_chunks(config, document) for document in vector.documents]
    options: dict[str, Any] = {
        "superword_pattern": config["merge_pattern"],
        "greedy_split": params["greedy_split"],
        "stop_early": not superbpe,
        "ties": "bytes",
        "overlaps": "disjoint",
        "deletions": kensho_deletions(word_phase),
    }
    size = word_phase["vocab_size"]
    if superbpe:
        target = size + params["supermerges"]
        training = reference.train_superbpe(documents, utf8_alphabet(), target, size, **options)
    else:
        training = reference.train_boundless(documents, utf8_alphabet(), size, **options)
    words = reference.train_words(
        reference.count_chunks(documents),
        utf8_alphabet(),
        size,
        ties="bytes",
        overlaps="disjoint",
        deletions=kensho_deletions(word_phase),
    )
    events: list[list[Any]] = []
    for event in training.events:
        if event.op is Op.DELETE:
            events.append(["d", *contents(training, event.id)])
        else:
            kind = "m" if event.op is Op.MERGE else "s"
            events.append([kind, *contents(training, *event.pair), event.n])
    verdict = Verdict(encode=encoder(model_of(training), lambda text: pretokenizer_chunks(config, text)))
    verdict.claim(vector, "events", [event for event in events if not superbpe or event[0] == "s"])
    verdict.claim(vector, "word_events", word_events(words))
    verdict.claim(vector, "word_ops_total", len(words.events))
    verdict.claim(vector, "word_ops_kept", sum(event[0] != "s" for event in events))
    verdict.claim(vector, "vocab", superword_flags(training))
    return verdict


def judge_boundless_original(vector: Vector) -> Verdict:
    params = vector.params
    documents = [find_chunks(params["pattern"], document) for document in vector.documents]
    training = reference.train_boundless_original(
        documents,
        bytes_alphabet(),
        params["vocab_size"],
        superword_pattern=params["merge_pattern"],
        deletions=kensho_deletions(params),
    )
    events: list[list[Any]] = []
    for event, detail in zip(training.events, training.details, strict=True):
        if detail is None:
            events.append(["d", *contents(training, event.id), event.n])
        else:
            kind = "m" if event.op is Op.MERGE else "s"
            counts = [event.n, detail.count_left, detail.count_right]
            events.append([kind, *contents(training, *event.pair), *counts])
    model = model_of(training)

    def encode(row: Row) -> dict[str, Any]:
        # This system's ids are places in a list that nothing leaves: our log ids.
        log_ids = model.encode_chunks(find_chunks(params["pattern"], row["text"]))
        return {"tok": tokens_hex(model, log_ids), "ids": log_ids}

    verdict = Verdict(encode=encode)
    dead = len(training.vocabulary.tokens) - training.vocabulary.size
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "deleted_tokens_still_in_vocab", dead)
    verdict.claim(vector, "vocab", [token.content.hex() for token in training.vocabulary.tokens])
    return verdict


def judge_superbpe_hf(vector: Vector) -> Verdict:
    params = vector.params

    def stage1(text: str) -> list[bytes]:
        return find_chunks(params["stage1_pattern"], text, keep_gaps=True)

    def stage2(text: str) -> list[bytes]:
        return find_chunks(params["stage2_pattern"], text, keep_gaps=True)

    first = reference.count_chunks([stage1(document) for document in vector.documents])
    words = reference.train_words(first, seen_alphabet(first), params["stage1_vocab_size"])
    merges = [
        (words.vocabulary[left].content, words.vocabulary[right].content)
        for left, right in (event.pair for event in words.events)
    ]
    # The merge file is cut with `head -n N`, and its first line is a version: N - 1 merges remain.
    inherited = merges[: params["num_inherit_merges"] - 1]
    second = reference.count_chunks([stage2(document) for document in vector.documents])
    training = reference.train_uw(inherited, second, seen_alphabet(second), params["vocab_size"])
    skipped = vector.data.get("skipped_inherited", 0)
    events = [
        ["i" if place < len(inherited) - skipped else "n", *contents(training, *event.pair), event.n]
        for place, event in enumerate(training.events)
    ]
    verdict = Verdict(encode=encoder(model_of(training), stage2, drop_unknown=True))
    verdict.claim(vector, "stage1_merges", [[left.hex(), right.hex()] for left, right in merges])
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "vocab", living(training))
    return verdict


# SCRIPT


def judge_script_bytes(vector: Vector) -> Verdict:
    params = vector.params
    name = params["pretokenizer"]
    pattern = pattern_named("gpt4o" if "gpt4o" in name else "gpt4_classic")

    def cut(text: str) -> list[bytes]:
        return find_chunks(pattern, nfc(text))

    chunks = reference.count_chunks([cut(document) for document in vector.documents])
    alphabet = bytes_alphabet(first_id=1)
    training = reference.train_words(
        chunks,
        alphabet,
        len(alphabet) + params["additional_vocab_size"],
        may_merge=reference.whole_characters_bytes if params["enforce_char_boundaries"] else None,
    )
    final = training.corpus.token_counts
    events = []
    for event, detail in zip(training.events, training.details, strict=True):
        assert detail is not None
        text = training.vocabulary[event.id].content.decode(errors="replace")
        events.append(["m", *event.pair, event.id, detail.merged, final[event.id], text.encode().hex()])
    model = model_of(training)

    def encode(row: Row) -> dict[str, Any]:
        log_ids = model.encode_chunks(chunk.encode() for chunk in row["chunks"])
        return {
            "tok": tokens_hex(model, log_ids),
            "ids": model.to_model_ids(log_ids),
            "base": [list(model.vocabulary[number].base) for number in log_ids],
        }

    corpus = vector.data.get("corpus", {})
    seen = {
        "base_tokens": sum(len(chunk) * n for chunk, n in chunks.items()),
        "chunks": chunks.total(),
        "unique_chunks": len(chunks),
    }
    verdict = Verdict(encode=encode)
    verdict.claims.append(Claim("corpus", seen, {key: corpus[key] for key in seen if key in corpus}))
    verdict.claim(vector, "events", events)
    return verdict


def prepared(text: str) -> str:
    """As the reference prepares a text: characters outside its table leave, then NFC."""
    return prepare(text.encode(), "nfc", "drop")[0].decode()


def judge_script_rules(vector: Vector) -> Verdict:
    params = vector.params
    alphabet = script_alphabet("drop")
    chunks = reference.count_chunks(
        [[chunk.encode() for chunk in split_by_rules(prepared(document))] for document in vector.documents]
    )
    training = reference.train_words(
        chunks,
        alphabet,
        params["base_tokens"] + params["additional_vocab_size"],
        may_merge=reference.whole_characters_script(INDEX_SYMBOLS) if params["enforce_char_boundaries"] else None,
    )
    final = training.corpus.token_counts
    events = []
    for event, detail in zip(training.events, training.details, strict=True):
        assert detail is not None
        text = decode_symbols(training.vocabulary[event.id].base)
        events.append(["m", *event.pair, event.id, detail.merged, final[event.id], text.encode().hex()])
    model = model_of(training)

    def encode(row: Row) -> dict[str, Any]:
        mine = split_by_rules(prepared(row["text"]))
        log_ids = model.encode_chunks(chunk.encode() for chunk in mine)
        base = [list(model.vocabulary[number].base) for number in log_ids]
        return {
            "chunks": mine,
            "ids": model.to_model_ids(log_ids),
            "base": base,
            "decoded": decode_symbols(symbol for token in base for symbol in token),
        }

    corpus = vector.data["corpus"]
    seen = {
        "base_tokens": sum(2 * len(chunk.decode()) * n for chunk, n in chunks.items()),
        "chunks": chunks.total(),
        "unique_chunks": len(chunks),
    }
    verdict = Verdict(encode=encode)
    verdict.claims.append(Claim("base_tokens", len(alphabet), params["base_tokens"]))
    verdict.claims.append(Claim("corpus", seen, {key: corpus[key] for key in seen}))
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
        matches = reference.text_matches(data["eligibility"]["patterns"][name])
        rows = data["eligibility"]["rows"]
        ours_eligible = [matches(row[0].encode()) for row in rows]
        verdict.claims.append(Claim(f"eligibility[{name}]", ours_eligible, [row[column] for row in rows]))
    return verdict


def judge_script_pieces(vector: Vector) -> Verdict:
    """The SCRIPT rules on the cases: what is normalised, the pieces, their base symbols."""
    theirs = vector.data["script_rule_based"]
    normalized = [prepared(text) for text in vector.data["cases"]]
    verdict = Verdict()
    for name, split in (("slow", split_by_rules), ("vectorised", split_vectorised)):
        rows = [
            {"normalized": text, "pieces": split(text), "base": [encode_text(piece) for piece in split(text)]}
            for text in normalized
        ]
        verdict.claims.append(Claim(f"script_rule_based, {name}", rows, theirs))
    return verdict


def split_vectorised(text: str) -> list[str]:
    data = text.encode()
    offsets = ScriptRules().cut(data)
    return [data[a:b].decode() for a, b in pairwise(offsets)]


def judge_script_blocks(vector: Vector) -> Verdict:
    """The table of blocks, row for row, with the digests of their characters."""
    rows = []
    for block in symbol_table().blocks:
        listed = [f"{point:04X}" for point in block.characters]
        digest = hashlib.sha256(" ".join(listed).encode()).hexdigest()[:16]
        place = [block.symbol, block.script_id, block.script, block.supercategory, block.sub_block]
        rows.append([*place, len(listed), listed[0], listed[-1], digest])
    verdict = Verdict()
    verdict.claim(vector, "blocks", rows)
    verdict.claim(vector, "num_blocks", len(rows))
    verdict.claim(vector, "num_index_tokens", INDEX_SYMBOLS)
    return verdict


@dataclass(frozen=True)
class Judge:
    """One row of the table: a judge of the vectors whose system (or file name) begins with `system`."""

    name: str
    system: str
    judge: Callable[[Vector], Verdict]
    when: Callable[[Vector], bool] = lambda vector: True

    def may_judge(self, vector: Vector) -> bool:
        return vector.system.startswith(self.system) and self.when(vector)


JUDGES = [
    Judge("reference", "plain byte BPE (minbpe", judge_minbpe),
    Judge("reference", "plain byte BPE (Hugging Face", judge_hf),
    Judge("reference", "BatchBPE", judge_batchbpe),
    Judge("reference", "PickyBPE (character level", judge_picky_char),
    Judge("reference", "kensho PickyBPE / word phase", judge_kensho_words),
    Judge("reference", "BoundlessBPE two-phase", judge_kensho_superwords),
    Judge("reference", "SuperBPE second pass (SuperBpeTrainer)", judge_kensho_superwords),
    Judge("reference", "BoundlessBPE original", judge_boundless_original),
    Judge("reference", "SuperBPE (two HF stages)", judge_superbpe_hf),
    Judge("reference", "SCRIPT-BPE trainer (bytes", judge_script_bytes),
    Judge("reference", "SCRIPT-BPE trainer (scriptenc", judge_script_rules),
    Judge("regex", "pretokenization", judge_pretokenization),
    Judge("rules", "pretokenization", judge_script_pieces),
    Judge("table", "script_blocks", judge_script_blocks),
]
