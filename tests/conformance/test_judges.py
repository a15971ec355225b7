"""The judges themselves: they take every parameter from a vector, and a wrong vector fails.

Vectors are made here with parameters that no golden one has. For plain BPE the published library makes them; the others
are what the slow reference learns under those parameters, so that of two judges the engine is the one that is not asked
about itself. Each vector must be confirmed, and refused with other parameters or with one event changed.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import regex
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from streambpe.model.alphabet import byte_to_character
from streambpe.text.patterns import PRESETS
from tests.conformance.engine import ENGINE_JUDGES
from tests.conformance.golden import OURS, Params, Vector, read_packed, vectors
from tests.conformance.judges import JUDGES
from tests.conformance.verdicts import Judge, Verdict

GPT2, GPT4, GPT4O = (PRESETS[name].expression for name in ("gpt2", "gpt4", "gpt4o"))
WORDS = r" ?\p{L}+| ?\p{N}+"  # leaves everything else out
IMPROVED = r"^(?=.+\p{L})(?:\p{L}\p{M}*|[ _'\u2019])+$"
TEXTS = ["The year of the song, and the song of the year: 2024.", "  naïve  café, ไทย 中文\n\n", "don't sing 12345!"]


BOUNDS, LONGER = {"min_count": 5, "max_ngram_len": 6}, {"max_ngram_len": 2}


def kensho(main: str = GPT4O, merge: str = r"\p{L}", special: str | None = None, scripts: Any = None) -> dict[str, Any]:
    """The parameters of a fastboundlessbpe pretokenizer."""
    return {"main_regex": main, "script_specific_regex": special, "script_specific_scripts": scripts,
            "merge_pattern": merge}  # fmt: skip


def phases(size: int, tau: float = 1.1, greedy: Any = False, supermerges: Any = None, **cut: Any) -> dict[str, Any]:
    """The parameters of words and superwords."""
    words = {"tau": tau, "blowup": True, "vocab_size": size}
    return {"word_phase": words, "supermerges": supermerges, "greedy_split": greedy, "pretokenizer": kensho(**cut)}


def batch(**other: Any) -> dict[str, Any]:
    """The parameters of BatchBPE."""
    return {"pattern": GPT4, "vocab_size": 330, "cap_divisor": 2, "max_batch_size": 0, "stop_list_size": 0,
            "freq_cutoff": 1, **other}  # fmt: skip


def original(**other: Any) -> dict[str, Any]:
    """The parameters of the original BoundlessBPE."""
    return {"pattern": GPT4O, "merge_pattern": IMPROVED, "tau": 1.1, "blowup": True, "vocab_size": 420, **other}


def script(pretokenizer: str, more: int = 60) -> dict[str, Any]:
    """The parameters of SCRIPT."""
    base = 1916 if pretokenizer.startswith("script") else 256
    return {"pretokenizer": pretokenizer, "additional_vocab_size": more, "base_tokens": base,
            "first_merge_id": base + 1, "enforce_char_boundaries": pretokenizer.endswith("_cb"),
            "normalization": "NFC after removal of characters absent from Scripts-16.0.0"}  # fmt: skip


def picky(**other: Any) -> dict[str, Any]:
    """The parameters of PickyBPE."""
    return {"vocab_size": 420, "threshold": 0.8, "coverage": 0.9999, "comparison": "IoS > threshold", **other}


def uw(**other: Any) -> dict[str, Any]:
    """The parameters of both stages of UW SuperBPE."""
    first, second = PRESETS["superbpe1"].expression, PRESETS["superbpe2"].expression
    return {"stage1_pattern": first, "stage2_pattern": second, "stage1_vocab_size": 200, "num_inherit_merges": 70,
            "vocab_size": 260, **other}  # fmt: skip


MINBPE = "plain byte BPE (minbpe RegexTokenizer)"
BATCH, QUICK = "BatchBPE (BatchTokenizer)", "BatchBPE (QuickTokenizer)"
PICKY, KENSHO = "PickyBPE (character level, pchizhov/picky_bpe)", "kensho PickyBPE / word phase (BpeTrainer)"
TWO_PHASES, SECOND = "BoundlessBPE two-phase (BoundlessBpeTrainer)", "SuperBPE second pass (SuperBpeTrainer)"
ORIGINAL, UW = "BoundlessBPE original (FasterHalfDirectRegexTokenizer)", "SuperBPE (two HF stages)"
SCRIPT = "SCRIPT-BPE trainer"
THAI_ONLY = {"special": r"\p{L}\p{M}*|\p{N}|\s+|[^\s\p{L}\p{N}]+", "scripts": ["Thai"]}

# (system, parameters, parameters that the same events do not belong to)
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "minbpe-pattern": (MINBPE, {"pattern": GPT2, "vocab_size": 320}, {"pattern": WORDS, "vocab_size": 320}),
    "minbpe-gaps": (MINBPE, {"pattern": WORDS, "vocab_size": 320}, {"pattern": GPT4, "vocab_size": 320}),
    "batch-pattern": (BATCH, batch(pattern=GPT2), batch(pattern=WORDS)),
    "batch-sizes": (BATCH, batch(max_batch_size=4, cap_divisor=3), batch(max_batch_size=9)),
    "batch-stops": (BATCH, batch(stop_list_size=1, freq_cutoff=3), batch(stop_list_size=3, freq_cutoff=3)),
    "batch-cutoff": (BATCH, batch(freq_cutoff=4), batch()),
    "quick": (QUICK, batch(max_batch_size=1), batch(max_batch_size=30)),
    "picky-threshold": (PICKY, picky(threshold=0.6), picky(threshold=0.95)),
    "picky-coverage": (PICKY, picky(coverage=0.99), picky()),
    "kensho-pattern": (KENSHO, {"tau": 0.8, "blowup": True, "vocab_size": 300, "pretokenizer": kensho(GPT2)},
                       {"tau": 0.8, "blowup": True, "vocab_size": 300, "pretokenizer": kensho(WORDS)}),
    "kensho-scripts": (KENSHO, {"tau": 1.1, "blowup": True, "vocab_size": 400, "pretokenizer": kensho(**THAI_ONLY)},
                       {"tau": 1.1, "blowup": True, "vocab_size": 400, "pretokenizer": kensho()}),
    "phases-eligible": (TWO_PHASES, phases(420, merge=IMPROVED), phases(420, merge=r"^ \p{Lu}")),
    "phases-greedy": (TWO_PHASES, phases(420, greedy=True), phases(420)),
    "phases-greedy-counts": (TWO_PHASES, phases(500, greedy=BOUNDS), phases(500, greedy=True)),
    "phases-greedy-lengths": (TWO_PHASES, phases(500, greedy=True) | BOUNDS,
                              phases(500, greedy=True) | BOUNDS | LONGER),
    "phases-pattern": (TWO_PHASES, phases(420, 0.7, main=GPT2), phases(420, 0.7, main=WORDS)),
    "phases-scripts": (TWO_PHASES, phases(420, **THAI_ONLY), phases(420)),
    "second-eligible": (SECOND, phases(400, supermerges=30, merge=IMPROVED), phases(400, supermerges=30, merge="e$")),
    "second-pattern": (SECOND, phases(300, 0.8, supermerges=30, main=WORDS), phases(300, 0.8, supermerges=30)),
    "original-eligible": (ORIGINAL, original(merge_pattern=r"\p{L}"), original()),
    "original-tau": (ORIGINAL, original(tau=0.7, pattern=GPT2), original(pattern=GPT2)),
    "uw-patterns": (UW, uw(stage1_pattern=GPT2, stage2_pattern=r"\p{N}+|[,.]"), uw(stage1_pattern=GPT2)),
    "uw-inherited": (UW, uw(num_inherit_merges=40), uw(num_inherit_merges=90)),
    "script-gpt4o": (f"{SCRIPT} (scriptenc_gpt4o_cb)", script("scriptenc_gpt4o_cb"), script("scriptenc_cb")),
    "script-no-cb": (f"{SCRIPT} (scriptenc_gpt4o)", script("scriptenc_gpt4o"), script("scriptenc_gpt4o_cb")),
    "script-nosplit": (f"{SCRIPT} (scriptenc_nosplit_cb)", script("scriptenc_nosplit_cb"), script("scriptenc_cb")),
    "bytes-no-cb": (f"{SCRIPT} (bytes_gpt4)", script("bytes_gpt4", 150), script("bytes_gpt4_cb", 150)),
    "bytes-gpt2": (f"{SCRIPT} (bytes_gpt2_cb)", script("bytes_gpt2_cb", 150), script("bytes_nosplit_cb", 150)),
}  # fmt: skip

FIELDS = {
    BATCH: ("events", "stop_words", "batch_sizes"),
    QUICK: ("events", "stop_words", "batch_sizes"),
    PICKY: ("events", "initial", "present_size", "vocab", "declared_size"),
    TWO_PHASES: ("events", "word_ops_total", "word_ops_kept", "vocab"),
    SECOND: ("events", "word_events", "word_ops_total", "word_ops_kept", "vocab"),
    ORIGINAL: ("events", "vocab", "deleted_tokens_still_in_vocab"),
    UW: ("events", "stage1_merges", "skipped_inherited", "vocab"),
}
CORPUS = ("docs", "base_tokens", "chunks", "chunks_skipped", "unique_chunks")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder of vectors with a text of its own: lines of two golden inputs, and characters that SCRIPT drops."""
    made = tmp_path_factory.mktemp("vectors")
    (made / "inputs").mkdir()
    swift = read_packed(OURS / "inputs", "g_swift.txt").decode().split("\n")
    many = read_packed(OURS / "inputs", "g_udhr6.txt").decode().split("\n")
    thai = [line for line in many if regex.search(r"\p{Thai}", line)]
    said = ["the song of the year and the end of the song", "of the year the song", "and the end of the year the end"]
    dropped = "\ue000 private \ue000 use, e\u0301te\u0301 \ufb01n"
    text = "\n".join([*swift[40:70], *thai[20:30], *many[-30:-20], *said * 12, *said[:2] * 9, dropped])
    (made / "inputs" / "small.txt.xz").write_bytes(lzma.compress(text.encode()))
    return made


def vector_of(folder: Path, name: str, system: str, params: dict[str, Any], **results: Any) -> Vector:
    """A vector, written and read as the golden ones are."""
    text = read_packed(folder / "inputs", "small.txt")
    data = {"system": system, "input": "small.txt", "sha256": hashlib.sha256(text).hexdigest(), "documents": "lines",
            "params": params, **results}  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(data))
    return next(vector for vector in vectors(folder) if vector.name == name)


def judges_of(vector: Vector) -> list[Judge]:
    """All that can say anything about it."""
    return [judge for judge in (*JUDGES, *ENGINE_JUDGES) if judge.may_judge(vector)]


def wrong(verdict: Verdict, vector: Vector) -> list[str]:
    """What a verdict finds wrong in a vector."""
    found = [claim.field for claim in verdict.claims if claim.ours != claim.theirs]
    for row in vector.data.get("encodings", ()) if verdict.encode else ():
        ours = verdict.encode(row)
        found += [f"{key} of {row['text']}" for key in row if key in ours and ours[key] != row[key]]
    return found


def learned_by_the_reference(folder: Path, name: str, system: str, params: dict[str, Any]) -> Vector:
    """The vector that the slow reference would write."""
    empty: dict[str, Any] = dict.fromkeys(FIELDS.get(system, ("events", "vocab")))
    if system.startswith(SCRIPT):
        empty = {"events": None, "corpus": dict.fromkeys(CORPUS)}
    judge = next(judge for judge in JUDGES if judge.may_judge(Vector(folder, name, {"system": system})))
    verdict = judge.verdict(vector_of(folder, name, system, params, **empty))
    results = {claim.field: claim.ours for claim in verdict.claims if claim.field in empty}
    assert results["events"]
    assert verdict.encode is not None
    rows = [{"text": text} for text in TEXTS]
    return vector_of(folder, name, system, params, **results,
                     encodings=[row | verdict.encode(row) for row in rows])  # fmt: skip


@pytest.mark.long
@pytest.mark.every(6)
@pytest.mark.parametrize("name", VARIANTS)
def test_parameters_are_the_vectors(folder, name):
    """Judged right with the parameters it was made with, by the reference and by the engine; wrong with others."""
    system, params, others = VARIANTS[name]
    vector = learned_by_the_reference(folder, name, system, params)
    engines = 0
    for judge in judges_of(vector):
        verdict = judge.verdict(vector)
        assert wrong(verdict, vector) == [], f"{judge.name} of {judge.system}"
        engines += judge in ENGINE_JUDGES
        assert len(verdict.claims) > 1 or verdict.not_judged
    assert engines
    liar = vector_of(folder, name, system, others, **{k: v for k, v in vector.data.items() if k in RESULTS})
    assert any(wrong(judge.verdict(liar), liar) for judge in judges_of(liar) if judge in JUDGES)


RESULTS = {field for fields in FIELDS.values() for field in fields} | {"events", "vocab", "corpus", "encodings"}


def changed(events: list[list[Any]], place: int) -> list[list[Any]]:
    """One count, or one id, is another."""
    made = [list(event) for event in events]
    last = next(i for i in range(3, len(made[place])) if isinstance(made[place][i], int))
    made[place][last] += 1
    return made


TAMPERED = (
    "minbpe-pattern", "batch-sizes", "picky-threshold", "kensho-pattern", "phases-eligible", "second-eligible",
    "original-tau", "uw-patterns", "script-gpt4o", "bytes-no-cb",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.every(3)
@pytest.mark.parametrize("name", TAMPERED)
def test_a_wrong_event_is_found_by_every_judge(folder, name):
    """One number of the second event is another: the reference and the engine both say so."""
    system, params, _ = VARIANTS[name]
    right = learned_by_the_reference(folder, name, system, params)
    events = right.data["events"]
    place = 1 if system != PICKY else next(i for i, event in enumerate(events) if i and event[0] == "m")
    results = {key: value for key, value in right.data.items() if key in RESULTS} | {"events": changed(events, place)}
    liar = vector_of(folder, name, system, params, **results)
    found = {judge.name: bool(wrong(judge.verdict(liar), liar)) for judge in judges_of(liar)}
    if system in (SECOND, TWO_PHASES):  # the words alone say nothing of superwords
        found.pop("engine", None)
    assert len(found) > 1
    assert all(found.values()), found


@pytest.mark.long
def test_a_parameter_that_no_judge_knows_fails(folder):
    """A vector made with something new is not judged as if it were without."""
    for name in ("minbpe-pattern", "phases-eligible"):
        system, params, _ = VARIANTS[name]
        right = learned_by_the_reference(folder, name, system, params)
        results = {key: value for key, value in right.data.items() if key in RESULTS}
        liar = vector_of(folder, name, system, params | {"min_count": 3}, **results)
        for judge in judges_of(liar):
            assert wrong(judge.verdict(liar), liar) == ["parameters that the judge passed over"]
    params = Params({"a": {"b": 1, "c": None}, "d": 2, "pattern_name": "x"})
    assert params["a"]["c"] is None
    assert params.passed_over() == ["a.b", "d"]


@pytest.mark.long
@pytest.mark.every(3)
@pytest.mark.parametrize(("pattern", "least", "alphabet"), [
    (GPT2, 0, "all 256 bytes"), (GPT4O, 4, "only bytes seen"), (WORDS, 7, "all 256 bytes"),
])  # fmt: skip
def test_vectors_made_by_hugging_faces_library(folder, pattern, least, alphabet):
    """Another pattern, minimum count and alphabet, learned by the published library itself."""
    text = read_packed(folder / "inputs", "small.txt").decode()
    documents = [line for line in text.split("\n") if line]
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    initial = pre_tokenizers.ByteLevel.alphabet() if alphabet == "all 256 bytes" else []
    trainer = trainers.BpeTrainer(vocab_size=900, min_frequency=least, initial_alphabet=initial, show_progress=False)
    tokenizer.train_from_iterator(documents, trainer)
    byte_of = {character: byte for byte, character in byte_to_character().items()}

    def raw(token: str) -> str:
        return bytes(byte_of[character] for character in token).hex()

    model = json.loads(tokenizer.to_str())["model"]
    vocab = sorted(model["vocab"], key=model["vocab"].__getitem__)
    encoded = [tokenizer.encode(text) for text in TEXTS]
    results = {
        "vocab": [raw(token) for token in vocab],
        "encodings": [
            {"text": text, "tok": [raw(token) for token in there.tokens], "ids": there.ids}
            for text, there in zip(TEXTS, encoded, strict=True)
        ],
    }
    params = {"pattern": pattern, "vocab_size": 900, "min_frequency": least, "initial_alphabet": alphabet}
    system = "plain byte BPE (Hugging Face tokenizers BpeTrainer)"
    right = vector_of(folder, "hf", system, params, **results)
    merges = [[raw(left), raw(right)] for left, right in model["merges"]]
    assert len(merges) > 30
    for judge in judges_of(right):
        assert wrong(judge.verdict(right), right) == []
    events = [["m", *pair, 0] for pair in merges]
    told = vector_of(folder, "hf", system, params, **results, events=events)
    for judge in judges_of(told):  # the library tells no counts, so only the pairs are compared
        (claim,) = (claim for claim in judge.verdict(told).claims if claim.field == "events")
        assert [event[1:3] for event in claim.ours] == merges
    for other in ({"min_frequency": 40}, {"pattern": r"\p{L}+|\P{L}"}, {"vocab_size": len(vocab) - 9}):
        liar = vector_of(folder, "hf", system, params | other, **results)
        for judge in judges_of(liar):
            assert wrong(judge.verdict(liar), liar), other


def test_a_folder_that_is_not_there_holds_no_vectors(tmp_path):
    """A missing folder gives none, which test_golden.py fails on; packed and plain files of one name are one."""
    assert vectors(tmp_path / "nowhere") == []
    (tmp_path / "a.json").write_text('{"system": "x"}')
    (tmp_path / "a.json.xz").write_bytes(lzma.compress(b'{"system": "x"}'))
    (tmp_path / "b.json.xz").write_bytes(lzma.compress(b'{"system": "y"}'))
    assert [vector.name for vector in vectors(tmp_path)] == ["a", "b"]
    with pytest.raises(FileNotFoundError, match=r"no c\.json"):
        read_packed(tmp_path, "c.json")
