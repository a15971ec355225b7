"""`evaluate`: every measure against encoding and counting document by document."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect import evaluate as module
from streambpe.inspect import measures
from streambpe.inspect.evaluate import ALL, evaluate
from streambpe.inspect.measures import MEASURES, renyi_efficiency
from streambpe.model.eventlog import write_event_log
from streambpe.resources import Resources
from streambpe.train.commands import train
from tests.runs import SMALL as LEARNING
from tests.runs import cli
from tests.samples import json_lines, written
from tests.trained import DOCUMENTS, HOSTILE, KINDS, trained

SMALL = Resources(256 * 10**6, 1)
TEXTS = {
    "a": [*DOCUMENTS[:40], "a document\nof two lines, the end"],
    "b": [text for text in HOSTILE if text and "<|" not in text] + ["ünïcode wörds 日本語 の the end of the day"],
    "c": ["in the end of the day it is the end of the line, " * 60 + "日本 語\u2003x" * 20],
}


def save(kind: str, folder: Path) -> str:
    path = folder / f"{kind}.events.jsonl"
    write_event_log(path, trained(kind))
    return str(path)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> list[str]:
    """Two files of documents, and one that is a document."""
    folder = tmp_path_factory.mktemp("texts")
    of_many = [json_lines(folder / f"{name}.jsonl", TEXTS[name]) for name in "ab"]
    return [*of_many, str(written(folder / "c.txt", TEXTS["c"][0]))]


def by_hand(tokenizer: Tokenizer, documents: list[str]) -> dict[str, Any]:
    """The measures from one document after another."""
    special = set(tokenizer.special_tokens.values())

    def is_partial(number: int) -> bool:
        content = b"" if number in special else tokenizer.decode_single_token_bytes(number)
        return content.decode(errors="ignore").encode() != content

    used = Counter(number for text in documents for number in tokenizer.encode_ordinary(text))
    tokens, size, words = used.total(), sum(len(text.encode()) for text in documents), len(" ".join(documents).split())
    partial = {number: n for number, n in used.items() if is_partial(number)}
    entropy = math.log2(sum((n / tokens) ** 2.5 for n in used.values())) / -1.5
    chunks = [tokenizer.encoder.encode_chunk(chunk) for text in documents for chunk in tokenizer.encoder.split(text)]
    found = {"documents": len(documents), "bytes": size, "tokens": tokens, "bytes_per_token": size / tokens}
    found |= {"words": words, "tokens_per_word": tokens / words, "vocab_size": tokenizer.n_vocab}
    found |= {"vocab_used": len(used), "vocab_used_share": len(used) / tokenizer.n_vocab}
    found |= {"renyi": entropy / math.log2(len(used)), "renyi_vocab": entropy / math.log2(tokenizer.n_vocab)}
    found |= {"partial_tokens": len(partial), "partial_share": sum(partial.values()) / tokens}
    return found | {"single_token_chunks": sum(len(ids) == 1 for ids in chunks) / len(chunks)}


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() - set(measures.APART) == expected.keys()
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(float(value), rel=1e-9), name


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pairs"])
def test_every_measure_equals_counting_by_hand(kind, sources, tmp_path, monkeypatch):
    """All kinds of models, superwords, deletions and unknown tokens too; in blocks of any size, across which words,
    chunks and superwords of a document go on, and with a table of chunks that is begun again after every block."""
    model = save(kind, tmp_path)
    tokenizer = Tokenizer(model)
    documents = [text for texts in TEXTS.values() for text in texts]
    expected = by_hand(tokenizer, documents)
    parts = [by_hand(tokenizer, texts) for texts in TEXTS.values()]
    for block in (16 << 20, 100):
        monkeypatch.setattr(module, "_MOST_BLOCK", block)
        monkeypatch.setattr(module, "_LEAST_BLOCK", block)
        monkeypatch.setattr(measures, "_SLICE", block)
        if block == 100:
            monkeypatch.setattr(module.ChunkCounts, "held", property(lambda _: 1 << 40))
        found = evaluate([model], sources, by="source", resources=SMALL)
        assert [one.source for one in found] == [*sources, ALL]
        assert_equal(found[-1].values, expected)
        for one, part in zip(found[:-1], parts, strict=True):
            assert_equal(one.values, part)
            assert one.values["parity"] == one.values["tokens"] / parts[0]["tokens"]
        tokens = [part["tokens"] for part in parts]
        for measure, each in (("gini_tokens", tokens), ("gini", [part["tokens"] / part["bytes"] for part in parts])):
            differences = sum(abs(one - other) for one in each for other in each)
            assert found[-1].values[measure] == pytest.approx(differences / (2 * len(each) * sum(each)))


@pytest.mark.parametrize("specials", [(), ("<s>",)])
def test_ids_that_begin_above_0(specials, sources, tmp_path):
    """The largest id is then n_vocab or more, also where no ordinary token has it."""
    options = {"alphabet": "bytes1", "vocab_size": 265, "special": specials, "reserve": 2}
    model = str(train(tmp_path / "run", sources[:1], resources=LEARNING, **options).log)
    (found,) = evaluate([model], sources[:1], resources=SMALL)
    assert_equal(found.values, by_hand(Tokenizer(model), TEXTS["a"]))


def test_renyi_equals_tokenization_scorer():
    """The published package, over random distributions."""
    scorer = pytest.importorskip("tokenization_scorer", reason="tokenization-scorer is not installed")
    rng = random.Random(1)
    for _ in range(30):
        lines = [[str(int(rng.expovariate(0.2))) for _ in range(rng.randint(2, 40))] for _ in range(5)]
        text = "\n".join(" ".join(line) for line in lines)
        counts = list(Counter(text.split()).values())
        for size, more in ((len(counts), {}), (5000, {"vocab": 5000})):
            theirs = scorer.score(text, metric="renyi", power=2.5, **more)
            assert renyi_efficiency(counts, size) == pytest.approx(theirs)


def test_what_figures_of_several_texts_do_not_say_is_told(tmp_path):
    """Parity compares texts that say the same, which texts with other numbers of documents do not; and a Russian letter
    has two bytes, so bytes per token are no measure between scripts."""
    model = save("plain", tmp_path)
    for name, text in (("en", "of the\na the\n"), ("more", "a\nb\nc\n"), ("ru", "кошка\nсобака\n")):
        written(tmp_path / f"{name}.txt", text)
    command = ("evaluate", model, "--lines", "--by", "source", "--text", tmp_path / "en.txt", "--text")
    assert "they have 2 to 3 documents" in cli(*command, tmp_path / "more.txt", "--json").stderr
    russian = cli(*command, tmp_path / "ru.txt").stderr
    assert "parity and gini/n are for texts that say the same" in russian
    assert "the characters of one source have 1.0 bytes, those of another 2.0" in russian
    assert "parity" not in cli("evaluate", model, "--text", tmp_path / "en.txt").stderr


def test_the_command_prints_tables_json_and_csv(sources, tmp_path):
    """The same numbers three ways; parity stands beside the file named first, wherever it sorts."""
    models = [save("plain", tmp_path), save("boundless", tmp_path)]
    sources = sources[:2]
    texts = ["--text", sources[1], "--text", sources[0]]
    rows = json.loads(cli("evaluate", *models, *texts, "--by", "source", "--json").stdout)
    assert [(row["model"], row["source"]) for row in rows] == [(m, s) for m in models for s in [*sources, ALL]]
    assert rows[1]["parity"] == 1
    table = list(csv.DictReader(io.StringIO(cli("evaluate", *models, *texts, "--by", "source", "--csv").stdout)))
    assert [int(row["tokens"]) for row in table] == [row["tokens"] for row in rows]
    assert set(table[0]) == {"model", "source", *MEASURES} - {*measures.ASKED}
    shown = cli("evaluate", *models, *texts, "--by", "source").stdout.splitlines()
    assert len(shown) == 7
    assert shown[1].split()[:2] == [models[0], sources[0]]
    together = cli("evaluate", *models, *texts).stdout
    for name in MEASURES:
        assert (name in together) == (name not in (*measures.APART, *measures.ASKED))
    assert f"{rows[2]['tokens']:,}" in together


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["plain", "boundless"])
def test_groups_are_their_files_put_together(kind, tmp_path):
    """A group's numbers are those of one file with all its documents; parity is beside the first text's group."""
    model = save(kind, tmp_path)
    groups = {"de": [DOCUMENTS[:9], DOCUMENTS[9:12]], "en": [DOCUMENTS[5:30]], "(no group)": [TEXTS["b"]]}
    texts = []
    for name, files in groups.items():
        folder = tmp_path / "texts" / name
        folder.mkdir(parents=True)
        for i, documents in enumerate(files):
            json_lines(folder / f"{i}.jsonl", documents)
        texts += ["--text", folder]
    rules = ["--group", "de=texts/de", "--group", "en=en/*.jsonl"]
    found = json.loads(cli("evaluate", model, *texts, "--by", "group", *rules, "--json").stdout)
    assert [row["group"] for row in found] == ["(no group)", "de", "en", ALL]
    for row in found[:-1]:
        together = json_lines(tmp_path / "together.jsonl", chain.from_iterable(groups[row["group"]]))
        (alone,) = evaluate([model], [together], resources=SMALL)
        assert {key: row[key] for key in alone.values} == alone.values
        assert row["parity"] == row["tokens"] / found[1]["tokens"]
    by_folder = json.loads(cli("evaluate", model, *texts, "--by", "group", "--group-by", "folder", "--json").stdout)
    assert by_folder == found
    n = [row["tokens"] for row in found[1:-1]]  # files of no group are none
    assert found[-1]["gini_tokens"] == pytest.approx(abs(n[0] - n[1]) / (2 * sum(n)))
    assert cli("evaluate", model, *texts, "--by", "group", *rules).stdout.split()[:2] == ["model", "group"]
    assert "say which texts" in cli("evaluate", model, *texts, "--by", "group", expect=2).stderr
    assert "are for --by group" in cli("evaluate", model, *texts, *rules, expect=2).stderr


def test_what_cannot_be_evaluated_is_said(tmp_path, sources):
    """No text, no model, a stream for two models, an empty text; the least tokens of superwords."""
    model = save("plain", tmp_path)
    assert "--text is missing" in cli("evaluate", model, expect=2).stderr
    assert "name at least one MODEL" in cli("evaluate", "--text", sources[0], expect=2).stderr
    with pytest.raises(UsageError, match="read only once"):
        evaluate([model, model], ["-"])
    assert "Missing" not in cli("evaluate", tmp_path / "nothing", "--text", sources[0], expect=1).stderr
    superwords = cli("evaluate", save("boundless", tmp_path), "--fewest", "--text", sources[0], expect=2).stderr
    assert "has superwords" in superwords
    empty = json_lines(tmp_path / "empty.jsonl", [""])
    (found,) = evaluate([model], [empty])
    assert (found.values["tokens"], found.values["bytes_per_token"]) == (0, None)
    assert "-" in cli("evaluate", model, "--text", empty).stdout
