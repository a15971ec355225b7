"""The engine as second judge: the real trainer, from a run folder to its event log, on a vector's own input.

Plain BPE counts the vector's text with the vector's pattern. The word phases go through a table of chunk
counts, because script-aware cutting is the vector's own. What the engine does not log (token counts before
a merge) it does not claim.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streambpe.config import Resources
from streambpe.encode.alphabet import bytes_alphabet
from streambpe.encode.eventlog import EventLog, Op, read_event_log
from streambpe.encode.patterns import find_pattern
from streambpe.encode.replay import Model
from streambpe.encode.tokenizer import Tokenizer
from streambpe.encode.words import WORD_MARK
from streambpe.store.sources import Source
from streambpe.train import reference
from streambpe.train.count import count
from streambpe.train.trainer import train
from tests.conformance.golden import Vector, find_chunks, pretokenizer_chunks
from tests.conformance.judges import Claim, Judge, Verdict, encoder

RESOURCES = Resources(256 * 10**6, 2)


def learn_from_text(vector: Vector, pattern: str, **options: Any) -> EventLog:
    """Count the vector's documents with a pattern and learn."""
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        documents = Source("documents", "iterator", texts=vector.documents)
        count(run, [documents], options={"pattern": pattern}, resources=RESOURCES)
        return read_event_log(train(run, resources=RESOURCES, **options).log)


def learn_from_counts(counts: dict[bytes, int], **options: Any) -> EventLog:
    """Learn from a table of chunks."""
    with TemporaryDirectory() as folder:
        table = Path(folder) / "counts.csv"
        with table.open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            writer.writerow(["chunk", "count"])
            writer.writerows((chunk.decode(), n) for chunk, n in counts.items())
        run = Path(folder) / "run"
        count(run, [str(table)], counts=True, resources=RESOURCES)
        return read_event_log(train(run, resources=RESOURCES, **options).log)


def named_events(model: Model) -> list[list[Any]]:
    """[left, right, n] of every event, tokens in hex."""
    return [[*(model.content(number).hex() for number in event.pair), event.n] for event in model.events]


def judge_hf(vector: Vector) -> Verdict:
    """Merges, counts, vocabulary and encodings of Hugging Face's trainer."""
    params = vector.params
    pattern = params["pattern"]
    alphabet = "gpt2" if params["initial_alphabet"] == "all 256 bytes" else "seen"
    log = learn_from_text(
        vector,
        pattern,
        alphabet=alphabet,
        vocab_size=params["vocab_size"],
        min_frequency=params["min_frequency"],
    )
    model = Model(log)
    verdict = Verdict(encode=encoder(model, lambda text: find_chunks(pattern, text), alphabet == "seen"))
    verdict.claim(vector, "events", [["m", *event] for event in named_events(model)])
    verdict.claim(vector, "vocab", [model.content(number).hex() for number in model.vocabulary.living])
    return verdict


def merges_before_a_tie(vector: Vector) -> int:
    """How many merges of the vector come before the first place where two pairs have the best count."""
    params = vector.params
    counts = reference.count_chunks([find_chunks(params["pattern"], document) for document in vector.documents])
    trainer = reference.WordTrainer(counts, bytes_alphabet())
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
    log = learn_from_text(vector, params["pattern"], like="rustbpe", vocab_size=params["vocab_size"])
    clear = merges_before_a_tie(vector)
    ours = [[*event.pair, event.id, event.n] for event in log.events[:clear]]
    theirs = [[left, right, new, n] for _, _, _, n, left, right, new in vector.data["events"][:clear]]
    verdict = Verdict(claims=[Claim(f"the first {clear} events", ours, theirs)])
    verdict.claims.append(Claim("more than a few events come before a tie", clear > 20, True))
    return verdict


def judge_kensho_words(vector: Vector) -> Verdict:
    """The word phase without deletions of fastboundlessbpe before superwords: pairs and counts in order."""
    params = vector.params
    documents = [pretokenizer_chunks(params["pretokenizer"], document) for document in vector.documents]
    counts = reference.count_chunks(documents)
    log = learn_from_counts(dict(counts), like="kensho", vocab_size=params["word_phase"]["vocab_size"])
    ours = named_events(Model(log))
    if "word_events" in vector.data:
        return Verdict([Claim("word_events", ours, [event[1:4] for event in vector.data["word_events"]])])
    theirs = [event[1:4] for event in vector.data["events"] if event[0] == "m"]
    kept = vector.data["word_ops_kept"]
    return Verdict(
        [
            Claim("word_ops_total", len(ours), vector.data["word_ops_total"]),
            Claim("merges among the events", ours[:kept], theirs),
        ]
    )


def judge_kensho_deletions(vector: Vector) -> Verdict:
    """The word phase with deletions: merges, counts, what was split and how often, the vocabulary, encodings.

    fastboundlessbpe deletes both parts of a merge (a, a), the second time with nothing left; we ask once.
    """
    params = vector.params
    documents = [pretokenizer_chunks(params["pretokenizer"], document) for document in vector.documents]
    counts = reference.count_chunks(documents)
    log = learn_from_counts(dict(counts), like="kensho", vocab_size=params["vocab_size"], tau=params["tau"])
    model = Model(log)
    ours = [
        ["d", model.content(event.id).hex(), [model.content(part).hex() for part in event.into], event.n]
        if event.op is Op.DELETE
        else ["m", *(model.content(number).hex() for number in event.pair), event.n]
        for event in log.events
    ]
    theirs = [event[:4] for event in vector.data["events"]]
    theirs = [event for i, event in enumerate(theirs) if event[:2] != theirs[i - 1][:2] or event[0] == "m"]
    verdict = Verdict(
        [Claim("events", ours, theirs)], encoder(model, lambda text: pretokenizer_chunks(params["pretokenizer"], text))
    )
    verdict.claim(vector, "vocab", [[model.content(number).hex(), 0] for number in model.vocabulary.living])
    return verdict


def splits_to_bytes(vector: Vector) -> bool:
    """Deleted tokens become bytes; `pair` mode is reference.py's alone."""
    return bool(vector.params["blowup"])


def judge_picky_characters(vector: Vector) -> Verdict:
    """PickyBPE as published, from text to tokens: merges and deletions in order, the living tokens, encodings.

    Ids are not compared: characters are numbered by code point here, there as they come. Of the rarest characters, all
    equally rare, others may be unknown here than there, for the same reason.
    """
    params = vector.params
    with TemporaryDirectory() as folder:
        result = train(
            Path(folder) / "run",
            [Source("documents", "iterator", texts=[vector.text])],
            like="picky",
            resources=RESOURCES,
            vocab_size=params["vocab_size"],
            tau=params["threshold"],
            coverage=params["coverage"],
        )
        log = read_event_log(result.log)
    tokenizer = Tokenizer(log)
    model = tokenizer.encoder.model

    def named(*numbers: int) -> list[str]:
        return [model.content(number).hex() for number in numbers]

    ours = [
        ["d", *named(event.id), named(*event.into)] if event.op is Op.DELETE else ["m", *named(*event.pair), event.n]
        for event in log.events
    ]
    specials = [special.text.encode().hex() for special in log.header.specials]
    initial = specials + [symbol.hex() for symbol in model.alphabet.symbols]
    theirs = vector.data["initial"]
    often = Counter("".join(WORD_MARK + word for word in vector.text.split()))
    exchanged = {often[bytes.fromhex(symbol).decode()] for symbol in set(initial) ^ set(theirs)}
    learned = sorted(set(specials + named(*model.vocabulary.living)) - set(initial))

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        return {"tok": [part.hex() for part in tokenizer.decode_tokens_bytes(tokenizer.encode_ordinary(row["text"]))]}

    return Verdict(
        [
            Claim("events", ours, [event[:3] if event[0] == "d" else event[:4] for event in vector.data["events"]]),
            Claim("initial", len(initial), len(theirs)),
            Claim("characters exchanged with equally rare ones", len(exchanged) <= 1, True),
            Claim("specials come first", [model.special_ids[s.text] for s in log.header.specials], [0, 1, 2, 3]),
            Claim("vocab", learned, sorted(set(vector.data["vocab"]) - set(theirs))),
            Claim("present_size", result.size, vector.data["present_size"]),
        ],
        encode,
    )


def judge_script(vector: Vector) -> Verdict:
    """SCRIPT-BPE from text to ids: counted, normalised, learned and encoded as a user would have it.

    The vector has occurrences merged where our log has the count: equal unless a token meets itself.
    """
    params = vector.params
    name = params["pretokenizer"]
    script = name.startswith("scriptenc")
    with TemporaryDirectory() as folder:
        result = train(
            Path(folder) / "run",
            [Source("documents", "iterator", texts=vector.documents)],
            like="script",
            counting={"options": {"pattern": "script" if script else "gpt4o" if "gpt4o" in name else "gpt4"}},
            resources=RESOURCES,
            encoding="script" if script else "bytes",
            whole_characters=params["enforce_char_boundaries"],
            vocab_size=params["base_tokens"] + params["additional_vocab_size"],
        )
        log = read_event_log(result.log)
    tokenizer = Tokenizer(log)
    model = tokenizer.encoder.model

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
    return Verdict(
        [Claim("events", ours, theirs), Claim("decoded", texts, [event[6] for event in vector.data["events"]])], encode
    )


def judge_kensho_superwords(vector: Vector) -> Verdict:
    """Both phases from the documents: every event with its count, the vocabulary, and the encodings."""
    config, words = vector.params["pretokenizer"], vector.params["word_phase"]
    split_scripts = config["script_specific_regex"] is not None
    pattern = find_pattern("gpt4o", split_scripts=split_scripts)
    assert (pattern.expression, pattern.script_expression) == (config["main_regex"], config["script_specific_regex"])
    options: dict[str, Any] = {"superwords": "boundless", "vocab_size": words["vocab_size"], "tau": words["tau"]}
    if "SuperBpeTrainer" in vector.system:
        options = {"superwords": "superbpe", "transition": words["vocab_size"]}
        options |= {"vocab_size": words["vocab_size"] + vector.params["supermerges"], "tau": words["tau"]}
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        counting = {"options": {"pattern": "gpt4o", "split_scripts": split_scripts}}
        documents = Source("documents", "iterator", texts=vector.documents)
        result = train(run, [documents], like="kensho", counting=counting, resources=RESOURCES, **options)
        model = Model(read_event_log(result.log))
    supers = "SuperBpeTrainer" in vector.system
    kinds = {Op.MERGE: "m", Op.SUPERMERGE: "s"}
    events = [
        ["d", model.content(event.id).hex()]
        if event.op is Op.DELETE
        else [kinds[event.op], *(model.content(number).hex() for number in event.pair), event.n]
        for event in model.events
        if event.op is Op.SUPERMERGE or not supers
    ]
    born = {event.id: event.op for event in reversed(model.events)}
    verdict = Verdict(encode=encoder(model, lambda text: pretokenizer_chunks(config, text)))
    verdict.claim(vector, "events", events)
    verdict.claim(vector, "word_ops_kept", sum(event.op is not Op.SUPERMERGE for event in model.events))
    verdict.claim(
        vector,
        "vocab",
        [[model.content(i).hex(), int(born.get(i) is Op.SUPERMERGE)] for i in model.vocabulary.living],
    )
    return verdict


def judge_uw(vector: Vector) -> Verdict:
    """Both stages of UW SuperBPE from the documents: every event with its count of stage 2, and the encodings."""
    params = vector.params
    seen = {byte for document in vector.documents for byte in document.encode()}
    patterns = {find_pattern(name).expression: name for name in ("superbpe1", "superbpe2")}
    with TemporaryDirectory() as folder:
        result = train(
            Path(folder) / "run",
            [Source("documents", "iterator", texts=vector.documents)],
            counting={"options": {"pattern": patterns[params["stage1_pattern"]]}},
            resources=RESOURCES,
            alphabet="seen",
            superwords="uw",
            # the merge file is cut with `head -n N`, and its first line is a version: N - 1 merges remain
            transition=len(seen) + params["num_inherit_merges"] - 1,
            stage2_pattern=patterns[params["stage2_pattern"]],
            vocab_size=params["vocab_size"],
        )
        model = Model(read_event_log(result.log))
    stage2 = find_pattern(patterns[params["stage2_pattern"]])
    verdict = Verdict(encode=encoder(model, lambda text: [c.encode() for c in stage2.split(text)], drop_unknown=True))
    verdict.claim(vector, "events", [[kind, *event] for (kind, *_), event in
                                     zip(vector.data["events"], named_events(model), strict=True)])  # fmt: skip
    verdict.claim(vector, "vocab", [model.content(number).hex() for number in model.vocabulary.living])
    return verdict


def without_deletions(vector: Vector) -> bool:
    """tau above 1: nothing is ever deleted."""
    return bool(vector.params["word_phase"]["tau"] > 1)


def splits_words_to_bytes(vector: Vector) -> bool:
    """Without deletions, or with deleted tokens as bytes."""
    return without_deletions(vector) or bool(vector.params["word_phase"]["blowup"])


ENGINE_JUDGES = [
    Judge("engine", "plain byte BPE (Hugging Face", judge_hf),
    Judge("engine", "plain byte BPE (minbpe", judge_minbpe),
    Judge("engine", "PickyBPE (character level", judge_picky_characters),
    Judge("engine", "kensho PickyBPE / word phase", judge_kensho_deletions, splits_to_bytes),
    Judge("engine", "BoundlessBPE two-phase", judge_kensho_words, without_deletions),
    Judge("engine", "SCRIPT-BPE trainer", judge_script),
    Judge("engine", "SuperBPE second pass (SuperBpeTrainer)", judge_kensho_words, without_deletions),
    Judge("superwords", "BoundlessBPE two-phase", judge_kensho_superwords, splits_words_to_bytes),
    Judge("superwords", "SuperBPE second pass (SuperBpeTrainer)", judge_kensho_superwords, splits_words_to_bytes),
    Judge("superwords", "SuperBPE (two HF stages)", judge_uw),
]
