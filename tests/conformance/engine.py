"""The engine as second judge: the real trainer, from a run folder to its event log, on a vector's own input.

What the engine does not log (token counts before a merge) it does not claim. Some published rules it does not have:
ties by first appearance (minbpe, BatchBPE), the greedy split of superword runs, and what sets the original BoundlessBPE
apart. There it is held to the vector as far as the slow reference says the same with that rule and with the engine's
own; how far that is does not depend on what the vector says.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streambpe.encode.tokenizer import Tokenizer
from streambpe.model.alphabet import Alphabet, bytes_alphabet
from streambpe.model.eventlog import EventLog, Op, read_event_log
from streambpe.model.replay import Model
from streambpe.resources import Resources
from streambpe.sources.source import Source
from streambpe.text.patterns import PRESETS, find_pattern
from streambpe.text.script_runs import SPACELESS
from streambpe.text.whitespace import WORD_MARK
from streambpe.train.commands import train
from tests import oracles
from tests.conformance.golden import Params, Vector, find_chunks, pretokenizer_chunks
from tests.conformance.judges import (
    ALL_BYTES,
    batch_options,
    hf_verdict,
    kensho_deletions,
    superword_verdict,
    train_batchbpe,
    train_kensho,
    train_picky,
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
    without_parts,
)
from tests.runs import counted_run

RESOURCES = Resources(400 * 10**6, 2)


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


def learn_from_counts(counts: dict[bytes, int], **options: Any) -> EventLog:
    """Learn from a table of chunks."""
    with TemporaryDirectory() as folder:
        run = counted_run(Path(folder) / "run", {chunk.decode(): n for chunk, n in counts.items()})
        return read_event_log(train(run, resources=RESOURCES, **options).log)


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


def merges_before_a_tie(vector: Vector) -> int:
    """How many merges of the vector come before the first place where two pairs have the best count."""
    params = vector.params
    counts = oracles.count_chunks([find_chunks(params["pattern"], document) for document in vector.documents])
    trainer = oracles.WordTrainer(counts, bytes_alphabet())
    for place, (_, _, _, _, left, right, _) in enumerate(vector.data["events"]):
        found = trainer.training.corpus.pair_counts
        n = max(found.values())
        if sum(count == n for count in found.values()) > 1:
            return place
        trainer.step((left, right), n)
    return len(vector.data["events"])


def judge_minbpe(vector: Vector) -> Verdict:
    """minbpe's merges as far as counts alone decide: its ties go to the pair first seen."""
    params = vector.params
    counting = {"pattern": preset(params["pattern"]), "gaps": "drop"}
    log, _ = learn_from_text(vector.documents, counting, "rustbpe", vocab_size=params["vocab_size"])
    clear = merges_before_a_tie(vector)
    ours, theirs = numbered_steps(Model(log))[:clear], vector.data["events"][:clear]
    return Verdict([Claim(f"events[:{clear}]", ours, theirs)], not_judged=only_until(clear, vector, "ties decide"))


def only_until(place: int, vector: Vector, why: str) -> str | None:
    """What to say when not all events are judged."""
    whole = len(vector.data["events"])
    return None if place >= whole else f"the engine is held to {place} of {whole} events; from there {why}"


def judge_batchbpe(vector: Vector) -> Verdict:
    """Batches as sets of merges with their counts, and stop words, until a tie decides what is in one."""
    params = vector.params
    trainings = [train_batchbpe(vector, ties) for ties in ("first-seen", "ids")]
    published, ours = (training.vocabulary.stop_ids.keys() for training in trainings)
    if published != ours:
        return Verdict(not_judged="a tie decides which chunks are stop words")
    batches = [in_batches(steps(oracles.as_model(t)), t.batch_sizes) for t in trainings]
    clear = equal_until(*batches)
    log, _ = learn_from_text(
        vector.documents, {"pattern": preset(params["pattern"]), "gaps": "drop"}, "batch", **batch_options(vector),
        max_batch=params["max_batch_size"] or None, stop_list=params["stop_list_size"],
        freq_cutoff=params["freq_cutoff"],
    )  # fmt: skip
    theirs = in_batches([event[:4] for event in vector.data["events"]], vector.data["batch_sizes"])
    learned = in_batches(steps(Model(log)), trainings[1].batch_sizes)
    stop_words = sorted(word.content.hex() for word in log.header.stop_words)
    events = sum(trainings[0].batch_sizes[:clear])
    return Verdict(
        [
            Claim(f"batches[:{clear}]", learned[:clear], theirs[:clear]),
            Claim("stop_words", stop_words, sorted(word for word, _ in vector.data["stop_words"])),
        ],
        not_judged=only_until(events, vector, "a tie decides which merges are in a batch"),
    )


def in_batches(events: list[list[Any]], sizes: list[int]) -> list[list[list[Any]]]:
    """The events of each batch, in an order that does not depend on ties."""
    ends = list(accumulate(sizes))
    return [sorted(events[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def deleting(tau: float) -> float | None:
    """As --tau has it: above 1 their code never deletes, and that is no --tau at all."""
    return tau if tau <= 1 else None


def learn_kensho_words(vector: Vector, words: Params) -> Model:
    """The word phase of fastboundlessbpe, from a table of chunk counts."""
    config = vector.params["pretokenizer"]
    counts = oracles.count_chunks([pretokenizer_chunks(config, document) for document in vector.documents])
    words.asked_elsewhere("blowup")  # by pairs
    config.asked_elsewhere("merge_pattern")  # of superwords
    tau = deleting(words["tau"])
    return Model(learn_from_counts(dict(counts), like="kensho", vocab_size=words["vocab_size"], tau=tau))


def judge_kensho_words(vector: Vector) -> Verdict:
    """The word phase before superwords: pairs and counts in order."""
    params = vector.params
    params.asked_elsewhere("supermerges")  # of superwords, which the next judge is about
    greedy_split(params)  # likewise
    events = steps(learn_kensho_words(vector, params["word_phase"]))
    kept = vector.data["word_ops_kept"]
    claims = [Claim("word_ops_total", len(events), vector.data["word_ops_total"])]
    if "word_events" in vector.data:
        theirs = once_deleted([event[:4] for event in vector.data["word_events"]])
        return Verdict([*claims, Claim("word_events", events, theirs)])
    theirs = [event for event in vector.data["events"] if event[0] != "s"]
    short = [event[:2] if event[0] == "d" else event for event in events]
    return Verdict([*claims, Claim("word steps among the events", short[:kept], theirs)])


def once_deleted(events: list[list[Any]]) -> list[list[Any]]:
    """fastboundlessbpe deletes both parts of a merge (a, a), the second time with nothing left; we ask once."""
    return [event for i, event in enumerate(events) if event[:2] != events[i - 1][:2] or event[0] == "m"]


def judge_kensho_deletions(vector: Vector) -> Verdict:
    """The word phase with deletions: merges, counts, what was split and how often, the vocabulary, encodings."""
    config, model = vector.params["pretokenizer"], learn_kensho_words(vector, vector.params)
    theirs = once_deleted([event[:4] for event in vector.data["events"]])
    verdict = Verdict(
        [Claim("events", steps(model), theirs)], encoder(model, lambda text: pretokenizer_chunks(config, text))
    )
    verdict.claim(vector, "vocab", superword_flags(model))
    return verdict


def pairs(params: Params) -> str | None:
    """A deleted token becomes the pair that made it only in the reference; the engine has bytes and walk."""
    return None if params["tau"] > 1 or params["blowup"] else "the engine never splits a token into its first pair"


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
    clear = characters_decide(vector, model.alphabet) if set(initial) != set(theirs) else len(ours)
    why = "it counts which of the rarest characters are unknown"

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        return {"tok": [part.hex() for part in tokenizer.decode_tokens_bytes(tokenizer.encode_ordinary(row["text"]))]}

    claims = [
        Claim("initial", len(initial), len(theirs)),
        Claim("characters exchanged with equally rare ones", len(exchanged) <= 1, True),
        Claim("specials come first", [model.special_ids[s.text] for s in log.header.specials], [0, 1, 2, 3]),
        Claim("comparison", "IoS > threshold", params["comparison"]),
    ]
    if clear < len(ours):
        claims.append(Claim(f"events[:{clear}]", ours[:clear], theirs_learned[:clear]))
        return Verdict(claims, not_judged=only_until(clear, vector, why))
    claims += [
        Claim("events", ours, theirs_learned),
        Claim("vocab", sorted(living - set(initial)), sorted({*vector.data["vocab"]} - {*theirs, *specials})),
        Claim("present_size", tokenizer.n_vocab, vector.data["present_size"]),
    ]
    return Verdict(claims, encode)


def characters_decide(vector: Vector, alphabet: Alphabet) -> int:
    """How many events are the same, whichever of the equally rare characters are unknown."""
    return equal_until(*(steps(oracles.as_model(train_picky(vector, known))) for known in (None, alphabet)))


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


def documents_for(config: Params, documents: list[str]) -> tuple[list[str], dict[str, Any]]:
    """(texts, counting options) that give these documents the chunks of a fastboundlessbpe pretokenizer.

    Where no option says it (script runs with scripts or patterns of one's own), the chunks are cut beforehand, with a
    character between them that the texts do not hold.
    """
    main, special, scripts = (config[key] for key in PRETOKENIZER)
    if special is None:
        return documents, {"pattern": preset(main), "gaps": "drop"}
    split = find_pattern(preset(main), gaps="drop", split_scripts=True)
    if split.script_expression == special and set(scripts) == set(SPACELESS):
        return documents, {"pattern": preset(main), "gaps": "drop", "split_scripts": True}
    mark = next(char for char in map(chr, range(0xE000, 0xF8FF)) if not any(char in text for text in documents))
    cut = [mark.join(chunk.decode() for chunk in pretokenizer_chunks(config, text)) for text in documents]
    return cut, {"pattern": f"[^{mark}]+", "gaps": "drop"}


PRETOKENIZER = ("main_regex", "script_specific_regex", "script_specific_scripts")


def end_of_text(pattern: str) -> str:
    """The published `$` also stands before a last line break, ours only at the end."""
    return f"{pattern[:-1]}(?=\\n?\\Z)" if pattern.endswith("$") and not pattern.endswith("\\$") else pattern


def judge_kensho_superwords(vector: Vector) -> Verdict:
    """Both phases from the documents: every event with its count, the vocabulary, and the encodings.

    The greedy split is not the engine's: with it the events are judged as far as it changes nothing, nothing else is.
    """
    params = vector.params
    config, words = params["pretokenizer"], params["word_phase"]
    options: dict[str, Any] = {"superwords": "boundless", "vocab_size": words["vocab_size"]}
    if "SuperBpeTrainer" in vector.system:
        size = words["vocab_size"] + params["supermerges"]
        options = {"superwords": "superbpe", "transition": words["vocab_size"], "vocab_size": size}
    split = greedy_split(params)
    words.asked_elsewhere("blowup")  # by words_in_pairs
    documents, counting = documents_for(config, vector.documents)
    options |= {"tau": deleting(words["tau"]), "superword_pattern": end_of_text(config["merge_pattern"])}
    log, _ = learn_from_text(documents, counting, "kensho", **options)
    verdict = superword_verdict(vector, Model(log))
    # whatever is equal as a whole needs no excuse, and the slow trainings are not made
    events = verdict.claims[0].ours
    clear = None if events == vector.data["events"] else published_until(vector, split)
    if clear is not None:
        named = Claim(f"events[:{clear}]", events[:clear], vector.data["events"][:clear])
        return Verdict([named], not_judged=only_until(clear, vector, "greedy_split or its early end decides"))
    return verdict


def published_until(vector: Vector, split: tuple[int, int] | None) -> int | None:
    """How many events are the same with and without what only fastboundlessbpe does; None: all, and no more follow."""
    documents = [pretokenizer_chunks(vector.params["pretokenizer"], document) for document in vector.documents]
    supers = "SuperBpeTrainer" in vector.system
    told = []
    for greedy, early in ((split, True), (None, False)):
        training = train_kensho(vector, documents, greedy, stop_early=early)
        told.append([event for event in training.events if event.op is Op.SUPERMERGE or not supers])
    return None if told[0] == told[1] else equal_until(*told)


def judge_boundless_original(vector: Vector) -> Verdict:
    """The original form as far as two phases learn the same. They part where a supermerge ties with a merge, where a
    string was listed before, and where a superword stays locked; and its size counts deleted tokens."""
    params = vector.params
    documents = [find_chunks(params["pattern"], document) for document in vector.documents]
    pattern, size = params["merge_pattern"], params["vocab_size"]
    deletions = kensho_deletions(params)
    old = oracles.train_boundless_original(
        documents, bytes_alphabet(), size, superword_pattern=pattern, deletions=deletions
    )
    new = oracles.train_boundless(
        documents, bytes_alphabet(), size, superword_pattern=oracles.text_matches(pattern, at_start=True),
        ties="bytes", overlaps="disjoint", deletions=deletions,
    )  # fmt: skip
    clear = equal_until(old.events, new.events)
    log, _ = learn_from_text(
        vector.documents, {"pattern": preset(params["pattern"]), "gaps": "drop"}, "kensho", alphabet="bytes",
        superwords="boundless", superword_pattern=rf"\A(?:{end_of_text(pattern)})", vocab_size=size,
        tau=deleting(params["tau"]),
    )  # fmt: skip
    ours = without_parts(steps(Model(log)))[:clear]
    theirs = [event if event[0] == "d" else event[:4] for event in vector.data["events"][:clear]]
    why = "a tie, a listed string or a locked superword decides"
    return Verdict([Claim(f"events[:{clear}]", ours, theirs)], not_judged=only_until(clear, vector, why))


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


def words_in_pairs(vector: Vector) -> str | None:
    """As `pairs`, of the word phase."""
    return pairs(vector.params["word_phase"])


ENGINE_JUDGES = [
    Judge("engine", "plain byte BPE (Hugging Face", judge_hf),
    Judge("engine", "plain byte BPE (minbpe", judge_minbpe),
    Judge("engine", "BatchBPE", judge_batchbpe),
    Judge("engine", "PickyBPE (character level", judge_picky_characters),
    Judge("engine", "kensho PickyBPE / word phase", judge_kensho_deletions, lambda vector: pairs(vector.params)),
    Judge("engine", "BoundlessBPE two-phase", judge_kensho_words, words_in_pairs),
    Judge("engine", "SCRIPT-BPE trainer", judge_script),
    Judge("engine", "SuperBPE second pass (SuperBpeTrainer)", judge_kensho_words, words_in_pairs),
    Judge("superwords", "BoundlessBPE two-phase", judge_kensho_superwords, words_in_pairs),
    Judge("superwords", "SuperBPE second pass (SuperBpeTrainer)", judge_kensho_superwords, words_in_pairs),
    Judge("superwords", "BoundlessBPE original", judge_boundless_original, lambda vector: pairs(vector.params)),
    Judge("superwords", "SuperBPE (two HF stages)", judge_uw),
]
