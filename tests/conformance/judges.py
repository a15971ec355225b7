"""The slow reference as judge: the table JUDGES at the end says who judges which vector."""

from __future__ import annotations

from typing import Any, Literal

from streambpe.model.alphabet import Alphabet, bytes_alphabet, gpt2_alphabet, seen_alphabet, utf8_alphabet
from streambpe.model.eventlog import Op, Special
from streambpe.model.replay import Model
from tests import oracles
from tests.conformance.golden import Params, Vector, find_chunks, pretokenizer_chunks
from tests.conformance.script_judges import (
    judge_pretokenization,
    judge_script,
    judge_script_blocks,
    judge_script_pieces,
)
from tests.conformance.verdicts import (
    Claim,
    Judge,
    Row,
    Verdict,
    encoder,
    greedy_split,
    inherited_first,
    living,
    numbered_steps,
    steps,
    superword_flags,
    tokens_hex,
    without_parts,
)
from tests.oracles.batch import BatchTraining
from tests.oracles.picky import SPECIALS, WORD_START
from tests.oracles.replay import encode_chunks

# Plain BPE


def judge_minbpe(vector: Vector) -> Verdict:
    params = vector.params
    chunks = oracles.count_chunks([find_chunks(params["pattern"], document) for document in vector.documents])
    training = oracles.train_words(chunks, bytes_alphabet(), params["vocab_size"], ties="first-seen")
    model = oracles.as_model(training)
    verdict = Verdict(encode=encoder(model, lambda text: find_chunks(params["pattern"], text)))
    verdict.claim(vector, "events", numbered_steps(model))
    return verdict


ALL_BYTES = {"all 256 bytes": True, "only bytes seen": False}  # Hugging Face's initial alphabet


def judge_hf(vector: Vector) -> Verdict:
    params = vector.params
    chunks = oracles.count_chunks([find_chunks(params["pattern"], document, True) for document in vector.documents])
    alphabet = gpt2_alphabet() if ALL_BYTES[params["initial_alphabet"]] else seen_alphabet(chunks)
    least = max(1, params["min_frequency"])
    return hf_verdict(
        vector, oracles.as_model(oracles.train_words(chunks, alphabet, params["vocab_size"], min_frequency=least))
    )


def hf_verdict(vector: Vector, model: Model) -> Verdict:
    """Merges, counts, vocabulary and encodings of Hugging Face's trainer."""
    pattern, all_bytes = vector.params["pattern"], ALL_BYTES[vector.params["initial_alphabet"]]
    # "isolated": what lies between matches stays
    verdict = Verdict(encode=encoder(model, lambda text: find_chunks(pattern, text, True), not all_bytes))
    verdict.claim(vector, "events", steps(model))
    verdict.claim(vector, "vocab", living(model))
    return verdict


def batch_options(vector: Vector) -> dict[str, Any]:
    """The options that BatchBPE has here by the same names."""
    params, overlaps = vector.params, "all" if "Quick" in vector.system else "disjoint"
    return {"vocab_size": params["vocab_size"], "cap_divisor": params["cap_divisor"], "overlaps": overlaps}


def train_batchbpe(vector: Vector, ties: Literal["first-seen", "ids"] = "first-seen") -> BatchTraining:
    """With the ties that were published, or those of the engine."""
    params = vector.params
    counts = oracles.count_chunks([find_chunks(params["pattern"], document) for document in vector.documents])
    return oracles.train_batches(
        oracles.cut_off(counts, params["freq_cutoff"]), bytes_alphabet(), ties=ties,
        max_batch_size=params["max_batch_size"], **batch_options(vector),
        stop_words=oracles.choose_stop_words(counts, params["stop_list_size"], "bytes" if ties == "ids" else ties),
    )  # fmt: skip


def judge_batchbpe(vector: Vector) -> Verdict:
    params, training = vector.params, train_batchbpe(vector)
    batch_of = [number for number, size in enumerate(training.batch_sizes) for _ in range(size)]
    model = oracles.as_model(training)
    verdict = Verdict(encode=encoder(model, lambda text: find_chunks(params["pattern"], text)))
    events = [[*step, batch] for step, batch in zip(numbered_steps(model), batch_of, strict=True)]
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "stop_words", [[chunk.hex(), n] for chunk, n in training.vocabulary.stop_ids.items()])
    verdict.claim(vector, "batch_sizes", training.batch_sizes)
    return verdict


# PickyBPE, both kinds


def train_picky(vector: Vector, alphabet: Alphabet | None = None) -> oracles.Training:
    """With the characters that were published, or others that are as rare."""
    params, words = vector.params, oracles.marked_words(vector.text.split("\n"))
    return oracles.train_words(
        words, alphabet or oracles.covering_alphabet(words, params["coverage"]), params["vocab_size"], ties="bytes",
        deletions=oracles.Deletions.at(params["threshold"], delete_to="walk", picky=True), other_ids=len(SPECIALS),
    )  # fmt: skip


def judge_picky_char(vector: Vector) -> Verdict:
    params, training = vector.params, train_picky(vector)
    offset, alphabet = len(SPECIALS), training.vocabulary.alphabet  # this system numbers its special tokens first
    told = Claim("comparison", "IoS > threshold", params["comparison"])
    specials = [text.encode().hex() for text in SPECIALS]
    model = oracles.as_model(
        training,
        config={"token_order": "first-birth", "specials_first": True},
        unk="<UNK>",
        specials=tuple(Special(text, number) for number, text in enumerate(SPECIALS)),
    )
    events = [
        [*(step[:3] if detail is None else [*step, detail.merged]), event.id + offset]
        for step, event, detail in zip(steps(model), training.events, training.details, strict=True)
    ]
    verdict = Verdict([told], encoder(model, lambda text: [(WORD_START + word).encode() for word in text.split()]))
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "declared_size", params["vocab_size"])
    verdict.claim(vector, "initial", specials + [symbol.hex() for symbol in alphabet.symbols])
    verdict.claim(vector, "present_size", training.size)
    verdict.claim(vector, "vocab", specials + tokens_hex(model, sorted(training.vocabulary.living)))
    return verdict


def kensho_deletions(params: Params) -> oracles.Deletions:
    delete_to: Any = "bytes" if params["blowup"] else "pair"
    return oracles.Deletions.at(params["tau"], delete_to, ask_twice=True)


def word_events(training: oracles.Training) -> list[list[Any]]:
    """Word phase events as fastboundlessbpe's vectors write them."""
    return [
        step if detail is None else [*step, detail.count_left, detail.count_right, int(detail.completed)]
        for step, detail in zip(steps(oracles.as_model(training)), training.details, strict=True)
    ]


def train_kensho_words(documents: list[list[bytes]], params: Params) -> oracles.Training:
    return oracles.train_words(
        oracles.count_chunks(documents), utf8_alphabet(), params["vocab_size"],
        ties="bytes", overlaps="disjoint", deletions=kensho_deletions(params),
    )  # fmt: skip


def judge_kensho_words(vector: Vector) -> Verdict:
    params = vector.params
    documents = [pretokenizer_chunks(params["pretokenizer"], document) for document in vector.documents]
    training = train_kensho_words(documents, params)
    model = oracles.as_model(training)
    params["pretokenizer"].asked_elsewhere("merge_pattern")  # of superwords, of which there are none
    verdict = Verdict(encode=encoder(model, lambda text: pretokenizer_chunks(params["pretokenizer"], text)))
    verdict.claim(vector, "events", word_events(training))
    verdict.claim(vector, "vocab", superword_flags(model))
    return verdict


# Superwords


def train_kensho(
    vector: Vector, documents: list[list[bytes]], split: tuple[int, int] | None, stop_early: bool
) -> oracles.Training:
    """Both phases, with or without what only fastboundlessbpe does."""
    params, words = vector.params, vector.params["word_phase"]
    size, superbpe = words["vocab_size"], "SuperBpeTrainer" in vector.system
    supermerges = params["supermerges"] if superbpe else 0  # of the other trainer there is no such number
    return oracles.train_boundless(
        documents, utf8_alphabet(), size + supermerges, transition=size if superbpe else None,
        superword_pattern=params["pretokenizer"]["merge_pattern"], greedy_split=split,
        stop_early=stop_early and not superbpe, ties="bytes", overlaps="disjoint", deletions=kensho_deletions(words),
    )  # fmt: skip


def judge_kensho_superwords(vector: Vector) -> Verdict:
    params = vector.params
    documents = [pretokenizer_chunks(params["pretokenizer"], document) for document in vector.documents]
    training = train_kensho(vector, documents, greedy_split(params), stop_early=True)
    words = train_kensho_words(documents, params["word_phase"])
    verdict = superword_verdict(vector, oracles.as_model(training))
    verdict.claim(vector, "word_events", word_events(words))
    verdict.claim(vector, "word_ops_total", len(words.events))
    return verdict


def superword_verdict(vector: Vector, model: Model) -> Verdict:
    """Every event of both phases, the vocabulary, and the encodings."""
    superbpe, config = "SuperBpeTrainer" in vector.system, vector.params["pretokenizer"]
    asked = [step for step in steps(model) if step[0] == "s" or not superbpe]
    events = [step[:2] if step[0] == "d" else step for step in asked]
    verdict = Verdict(encode=encoder(model, lambda text: pretokenizer_chunks(config, text)))
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "word_ops_kept", sum(event.op is not Op.SUPERMERGE for event in model.events))
    verdict.claim(vector, "vocab", superword_flags(model))
    return verdict


def judge_boundless_original(vector: Vector) -> Verdict:
    params = vector.params
    documents = [find_chunks(params["pattern"], document) for document in vector.documents]
    training = oracles.train_boundless_original(
        documents,
        bytes_alphabet(),
        params["vocab_size"],
        superword_pattern=params["merge_pattern"],
        deletions=kensho_deletions(params),
    )
    model = oracles.as_model(training)
    events = [
        step if detail is None else [*step, detail.count_left, detail.count_right]
        for step, detail in zip(without_parts(steps(model)), training.details, strict=True)
    ]

    def encode(row: Row) -> dict[str, Any]:
        # This system's ids are places in a list that nothing leaves: our log ids.
        log_ids = encode_chunks(model, find_chunks(params["pattern"], row["text"]))
        return {"tok": tokens_hex(model, log_ids), "ids": log_ids}

    verdict = Verdict(encode=encode)
    dead = len(training.vocabulary.tokens) - training.vocabulary.size
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "deleted_tokens_still_in_vocab", dead)
    verdict.claim(vector, "vocab", tokens_hex(model, range(len(training.vocabulary.tokens))))
    return verdict


def judge_superbpe_hf(vector: Vector) -> Verdict:
    params = vector.params

    def stage1(text: str) -> list[bytes]:
        return find_chunks(params["stage1_pattern"], text, keep_gaps=True)

    def stage2(text: str) -> list[bytes]:
        return find_chunks(params["stage2_pattern"], text, keep_gaps=True)

    first = oracles.count_chunks([stage1(document) for document in vector.documents])
    least = max(1, params.get("min_frequency", 0))
    words = oracles.train_words(first, seen_alphabet(first), params["stage1_vocab_size"], min_frequency=least)
    merges = [
        (words.vocabulary[left].content, words.vocabulary[right].content)
        for left, right in (event.pair for event in words.events)
    ]
    # The merge file is cut with `head -n N`, and its first line is a version: N - 1 merges remain.
    inherited = merges[: params["num_inherit_merges"] - 1]
    second = oracles.count_chunks([stage2(document) for document in vector.documents])
    training = oracles.train_uw(inherited, second, seen_alphabet(second), params["vocab_size"], min_frequency=least)
    verdict = uw_verdict(vector, oracles.as_model(training), [[left.hex(), right.hex()] for left, right in inherited])
    verdict.claim(vector, "stage1_merges", [[left.hex(), right.hex()] for left, right in merges])
    return verdict


def uw_verdict(vector: Vector, model: Model, inherited: list[list[str]]) -> Verdict:
    """Every event with its count of stage 2, and the encodings."""
    second, events = vector.params["stage2_pattern"], [step[1:] for step in steps(model)]
    kept = len(inherited_first(inherited, [event[:2] for event in events]))
    verdict = Verdict(encode=encoder(model, lambda text: find_chunks(second, text, True), drop_unknown=True))
    verdict.claim(vector, "events", [["i" if i < kept else "n", *event] for i, event in enumerate(events)])
    verdict.claim(vector, "skipped_inherited", len(inherited) - kept)
    verdict.claim(vector, "vocab", living(model))
    return verdict


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
    Judge("reference", "SCRIPT-BPE trainer", judge_script),
    Judge("regex", "pretokenization", judge_pretokenization),
    Judge("rules", "pretokenization", judge_script_pieces),
    Judge("table", "script_blocks", judge_script_blocks),
]
