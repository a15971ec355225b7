"""The engine as second judge: the real trainer, from a run folder to its event log, on a vector's own input.

What the engine does not log (token counts before a merge) it does not claim. Some published rules it does not have:
ties by first appearance (minbpe, BatchBPE), tokens split into their first pair, the greedy split of superword runs, and
what sets the original BoundlessBPE apart. Those only the slow reference is held to.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streambpe.encode.tokenizer import Tokenizer
from streambpe.model.alphabet import bytes_alphabet
from streambpe.model.eventlog import EventLog, read_event_log
from streambpe.model.replay import Model
from streambpe.resources import Resources
from streambpe.sources.source import Source
from streambpe.text.patterns import PRESETS, find_pattern
from streambpe.text.whitespace import WORD_MARK
from streambpe.train.commands import train
from tests import oracles
from tests.conformance.golden import Params, Vector, find_chunks, pretokenizer_chunks
from tests.conformance.judges import (
    ALL_BYTES,
    batch_options,
    hf_verdict,
    superword_verdict,
    train_batchbpe,
    uw_verdict,
)
from tests.conformance.script_judges import NO_SPLIT, Pretokenizer
from tests.conformance.verdicts import (
    Claim,
    Judge,
    Verdict,
    encoder,
    equal_until,
    greedy_split,
    numbered_steps,
    steps,
    superword_flags,
)

RESOURCES = Resources(400 * 10**6, 2)
TIES = ("first-seen", "ids")  # as published, and the engine's own


def preset(expression: str) -> str:
    """The name of a pattern that has one, as a user would give it; else the expression."""
    names = [name for name, pattern in PRESETS.items() if pattern.expression == expression and not pattern.by_rules]
    return names[0] if names else expression


def learn_from_text(
    documents: list[str], counting: dict[str, Any], like: str = "hf", **options: Any
) -> tuple[EventLog, Tokenizer]:
    """Count these documents and learn."""
    with TemporaryDirectory() as folder:
        source = Source("documents", "iterator", texts=documents)
        given = {"counting": {"options": counting}, "like": like, "resources": RESOURCES}
        log = read_event_log(train(Path(folder) / "run", [source], **given, **options).log)
        return log, Tokenizer(log)


def judge_hf(vector: Vector) -> Verdict:
    """Merges, counts, vocabulary and encodings of Hugging Face's trainer."""
    params = vector.params
    log, _ = learn_from_text(
        vector.documents,
        {"pattern": preset(params["pattern"]), "gaps": "keep"},
        alphabet="gpt2" if ALL_BYTES[params["initial_alphabet"]] else "seen",
        vocab_size=params["vocab_size"],
        min_frequency=params["min_frequency"],
    )
    return hf_verdict(vector, Model(log))


def judge_minbpe(vector: Vector) -> Verdict:
    """minbpe's merges as far as the reference learns the same with the engine's ties: its own go to the pair first
    seen."""
    params = vector.params
    chunks = oracles.count_chunks([find_chunks(params["pattern"], document) for document in vector.documents])
    clear = equal_until(
        *(oracles.train_words(chunks, bytes_alphabet(), params["vocab_size"], ties=ties).events for ties in TIES)
    )
    counting = {"pattern": preset(params["pattern"]), "gaps": "drop"}
    log, _ = learn_from_text(vector.documents, counting, "rustbpe", vocab_size=params["vocab_size"])
    ours, theirs = numbered_steps(Model(log))[:clear], vector.data["events"][:clear]
    return Verdict([Claim(f"events[:{clear}]", ours, theirs)])


def judge_batchbpe(vector: Vector) -> Verdict:
    """What the reference learns with the engine's ties: it is held to the vector with those that were published."""
    params, training = vector.params, train_batchbpe(vector, "ids")
    log, _ = learn_from_text(
        vector.documents, {"pattern": preset(params["pattern"]), "gaps": "drop"}, "batch", **batch_options(vector),
        max_batch=params["max_batch_size"] or None, stop_list=params["stop_list_size"],
        freq_cutoff=params["freq_cutoff"],
    )  # fmt: skip
    stop_words = {word.content: word.id for word in log.header.stop_words}
    return Verdict(
        [
            Claim("events", list(log.events), training.events),
            Claim("stop_words", stop_words, training.vocabulary.stop_ids),
        ]
    )


def deleting(tau: float) -> float | None:
    """As --tau has it: above 1 their code never deletes, and that is no --tau at all."""
    return tau if tau <= 1 else None


def once_deleted(events: list[list[Any]]) -> list[list[Any]]:
    """fastboundlessbpe deletes both parts of a merge (a, a), the second time with nothing left; we ask once."""
    return [event for i, event in enumerate(events) if event[:2] != events[i - 1][:2] or event[0] == "m"]


def judge_kensho_deletions(vector: Vector) -> Verdict:
    """The word phase with deletions: merges, counts, what was split and how often, the vocabulary, encodings."""
    params, config = vector.params, vector.params["pretokenizer"]
    config.asked_elsewhere("merge_pattern")  # of superwords
    params.asked_elsewhere("blowup")  # by `knows`
    size, tau = params["vocab_size"], deleting(params["tau"])
    log, _ = learn_from_text(vector.documents, counting_of(config), "kensho", vocab_size=size, tau=tau)
    model = Model(log)
    theirs = once_deleted([event[:4] for event in vector.data["events"]])
    verdict = Verdict(
        [Claim("events", steps(model), theirs)], encoder(model, lambda text: pretokenizer_chunks(config, text))
    )
    verdict.claim(vector, "vocab", superword_flags(model))
    return verdict


def knows(words: Params) -> bool:
    """Whether the engine can delete so: only the reference splits a deleted token into the pair that made it."""
    return words["tau"] > 1 or words["blowup"]


def judge_picky_characters(vector: Vector) -> Verdict:
    """PickyBPE as published, from text to tokens: merges and deletions in order, the living tokens, encodings.

    Ids are not compared: characters are numbered by code point here, there as they come. Of the rarest characters, all
    equally rare, others may be unknown here than there, for the same reason.
    """
    params = vector.params
    log, tokenizer = learn_from_text(
        [vector.text], {}, "picky", vocab_size=params["vocab_size"], tau=params["threshold"],
        coverage=params["coverage"],
    )  # fmt: skip
    model = tokenizer.encoder.model

    ours = [event[:3] if event[0] == "d" else event for event in steps(model)]
    theirs_learned = [event[:3] if event[0] == "d" else event[:4] for event in vector.data["events"]]
    specials = [special.text.encode().hex() for special in log.header.specials]
    initial = specials + [symbol.hex() for symbol in model.alphabet.symbols]
    theirs = vector.data["initial"]
    often = Counter("".join(WORD_MARK + word for word in vector.text.split()))
    exchanged = {often[bytes.fromhex(symbol).decode()] for symbol in set(initial) ^ set(theirs)}
    living = {model.content(number).hex() for number in model.vocabulary.living}

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        return {"tok": [part.hex() for part in tokenizer.decode_tokens_bytes(tokenizer.encode_ordinary(row["text"]))]}

    claims = [
        Claim("initial", len(initial), len(theirs)),
        Claim("characters exchanged with equally rare ones", len(exchanged) <= 1, True),
        Claim("specials come first", [model.special_ids[s.text] for s in log.header.specials], [0, 1, 2, 3]),
        Claim("comparison", "IoS > threshold", params["comparison"]),
    ]
    if exchanged:
        return Verdict(claims)  # events depend on which of the rarest characters are unknown
    claims += [
        Claim("events", ours, theirs_learned),
        Claim("vocab", sorted(living - set(initial)), sorted({*vector.data["vocab"]} - {*theirs, *specials})),
        Claim("present_size", tokenizer.n_vocab, vector.data["present_size"]),
    ]
    return Verdict(claims, encode)


def judge_script(vector: Vector) -> Verdict:
    """SCRIPT-BPE from text to ids: counted, normalised, learned and encoded as a user would have it.

    The vector has occurrences merged where our log has the count: equal unless a token meets itself.
    """
    params, way = vector.params, Pretokenizer.of(vector.params)
    pattern = "script" if way.pattern is None else "none" if way.pattern == NO_SPLIT else preset(way.pattern)
    if way.pattern not in (None, NO_SPLIT) and pattern == way.pattern:
        pattern = f"(?s){pattern}"
    log, tokenizer = learn_from_text(
        vector.documents, {"pattern": pattern, "gaps": "drop"}, "script",
        encoding="script" if way.script else "bytes", whole_characters=way.whole_characters,
        vocab_size=params["base_tokens"] + params["additional_vocab_size"],
    )  # fmt: skip
    model = tokenizer.encoder.model
    script = way.script

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        ids = tokenizer.encode(row["text"])
        base = [list(model.vocabulary[model.log_id[number]].base) for number in ids]
        found = {"ids": ids, "base": base, "chunks": tokenizer.encoder.split(row["text"])}
        found["decoded"] = tokenizer.decode(ids)
        return found if script else found | {"tok": [tokenizer.decode_single_token_bytes(n).hex() for n in ids]}

    def told(events: list[list[Any]]) -> list[list[Any]]:
        return [[left, right, new, n if left != right else None] for left, right, new, n in events]

    ours = told([[*event.pair, event.id, event.n] for event in log.events])
    theirs = told([event[1:5] for event in vector.data["events"]])
    texts = [tokenizer.decode([model.model_id[event.id]]).encode().hex() for event in log.events]
    texts_there = [event[6] for event in vector.data["events"]]
    claims = way.claims(params, len(model.alphabet))
    return Verdict([*claims, Claim("events", ours, theirs), Claim("decoded", texts, texts_there)], encode)


def counting_of(config: Params) -> dict[str, Any]:
    """The counting options that are a fastboundlessbpe pretokenizer."""
    config.asked_elsewhere("script_specific_scripts")  # by pretokenizer_chunks
    main, special = preset(config["main_regex"]), config["script_specific_regex"]
    if special is None:
        return {"pattern": main, "gaps": "drop"}
    assert find_pattern(main, gaps="drop", split_scripts=True).script_expression == special
    return {"pattern": main, "gaps": "drop", "split_scripts": True}


def end_of_text(pattern: str) -> str:
    """The published `$` also stands before a last line break, ours only at the end."""
    return f"{pattern[:-1]}(?=\\n?\\Z)" if pattern.endswith("$") and not pattern.endswith("\\$") else pattern


def judge_kensho_superwords(vector: Vector) -> Verdict:
    """Both phases from the documents: every event with its count, the vocabulary, and the encodings."""
    params = vector.params
    config, words = params["pretokenizer"], params["word_phase"]
    options: dict[str, Any] = {"superwords": "boundless", "vocab_size": words["vocab_size"]}
    if "SuperBpeTrainer" in vector.system:
        size = words["vocab_size"] + params["supermerges"]
        options = {"superwords": "superbpe", "transition": words["vocab_size"], "vocab_size": size}
    params.asked_elsewhere("greedy_split")  # by knows_superwords, as is the next
    words.asked_elsewhere("blowup")
    options |= {"tau": deleting(words["tau"]), "superword_pattern": end_of_text(config["merge_pattern"])}
    log, _ = learn_from_text(vector.documents, counting_of(config), "kensho", **options)
    return superword_verdict(vector, Model(log))


def judge_uw(vector: Vector) -> Verdict:
    """Both stages of UW SuperBPE from the documents: every event with its count of stage 2, and the encodings."""
    params = vector.params
    first, second = params["stage1_pattern"], params["stage2_pattern"]
    seen = {byte for document in vector.documents for byte in document.encode()}
    # the merge file is cut with `head -n N`, and its first line is a version: N - 1 merges remain, if there are so many
    merges = min(params["num_inherit_merges"] - 1, params["stage1_vocab_size"] - len(seen))
    log, _ = learn_from_text(
        vector.documents, {"pattern": preset(first), "gaps": "keep"}, alphabet="seen", superwords="uw",
        transition=len(seen) + merges, stage2_pattern=preset(second), vocab_size=params["vocab_size"],
        min_frequency=max(1, params.get("min_frequency", 0)),
    )  # fmt: skip
    return uw_verdict(vector, Model(log), vector.data["stage1_merges"][:merges])


def knows_superwords(vector: Vector) -> bool:
    """Without the greedy split, which is fastboundlessbpe's alone."""
    return greedy_split(vector.params) is None and knows(vector.params["word_phase"])


ENGINE_JUDGES = [
    Judge("engine", "plain byte BPE (Hugging Face", judge_hf),
    Judge("engine", "plain byte BPE (minbpe", judge_minbpe),
    Judge("engine", "BatchBPE", judge_batchbpe),
    Judge("engine", "PickyBPE (character level", judge_picky_characters),
    Judge("engine", "kensho PickyBPE / word phase", judge_kensho_deletions, lambda vector: knows(vector.params)),
    Judge("engine", "SCRIPT-BPE trainer", judge_script),
    Judge("superwords", "BoundlessBPE two-phase", judge_kensho_superwords, knows_superwords),
    Judge("superwords", "SuperBPE second pass (SuperBpeTrainer)", judge_kensho_superwords, knows_superwords),
    Judge("superwords", "SuperBPE (two HF stages)", judge_uw),
]
