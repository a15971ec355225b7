"""`sizes`: one table of a model cut to several sizes, against cutting it and encoding every time."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.export import cut_log
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, UsageError
from streambpe.inspect.evaluate import ALL, evaluate
from streambpe.inspect.sizes import RARE, sizes
from streambpe.model.eventlog import EventLog, Op, write_event_log
from streambpe.model.pruned import without_residues
from streambpe.model.replay import Model
from tests.oracles.replay import encode_chunks
from tests.runs import SMALL, cli
from tests.samples import json_lines, written
from tests.tiers import seeds
from tests.trained import DOCUMENTS, HOSTILE, KINDS, configured, random_log, trained


def uses_by_replaying(log: EventLog, counts: dict[str, int]) -> Counter[int]:
    """How often each log id is used, by the slow replay of each chunk."""
    model, found = Model(log), Counter[int]()
    for chunk, n in counts.items():
        for number in encode_chunks(model, [chunk.encode()]):
            found[number] += n
    return +found


@pytest.mark.long
def test_every_size_of_odd_logs(tmp_path):
    """Merges that come again, that make what is there, whose parts nothing makes; stop words, long words."""
    model, text = tmp_path / "m.events.jsonl", tmp_path / "t.txt"
    for seed in seeds(1000):
        odd, rng = random_log(seed, supers=False), random.Random(seed)
        log = EventLog(odd.header, tuple(event for event in odd.events if event.op is Op.MERGE))
        write_event_log(model, log)
        words = ["".join(rng.choices("abc. ", k=rng.choice([1, 2, 3, 6, 12, 60]))) for _ in range(12)]
        text.write_text("".join([*words, "a" * rng.randint(1, 70), "ab" * rng.randint(20, 60)]))
        counts = Counter(Encoder(log).split(text.read_text()))
        asked = range(Model(EventLog(log.header, ())).n_vocab + 1, Model(log).n_vocab + 1)
        for found in sizes(model, str(text), vocab_size=asked, rare=2, resources=SMALL):
            slow = uses_by_replaying(cut_log(log, found.vocab_size), counts)
            assert (found.tokens, found.vocab_used_share) == (slow.total(), len(slow) / found.vocab_size)
            assert found.rare == found.vocab_size - sum(n > 1 for n in slow.values())


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pairs"])
def test_the_table_is_that_of_the_models_cut_to_these_sizes(kind, tmp_path):
    """As `export --vocab-size` cuts them and `evaluate` measures them; with superwords and deletions, too."""
    log, model = trained(kind), tmp_path / "model.events.jsonl"
    write_event_log(model, log)
    whole, least = Tokenizer(log).n_vocab, Tokenizer(EventLog(log.header, ())).n_vocab
    asked = [whole, (whole + least) // 2, least + 9]
    documents = [DOCUMENTS[:20], DOCUMENTS[20:40], [text for text in HOSTILE if text]]
    files = [json_lines(tmp_path / f"{i}.jsonl", texts) for i, texts in enumerate(documents)]
    given = {"de": files[:2], "en": files[2]}
    found = sizes(model, given, vocab_size=asked, rare=3, resources=SMALL)
    assert [(one.group, one.vocab_size) for one in found] == [(g, s) for g in ("de", "en", ALL) for s in asked]
    for one in found:
        texts = given.get(one.group, files)
        smaller = tmp_path / "cut.events.jsonl"
        write_event_log(smaller, cut_log(log, one.vocab_size))
        (beside,) = evaluate(smaller, texts, resources=SMALL)
        for name in ("bytes", "tokens", "bytes_per_token", "vocab_used_share", "renyi"):
            assert getattr(one, name) == pytest.approx(beside.values[name], rel=1e-12), name
        encode, uses = Tokenizer(smaller), Counter()
        for path in [texts] if isinstance(texts, str) else texts:
            for line in Path(path).read_text(encoding="utf-8").splitlines():
                uses.update(encode.encode_ordinary(json.loads(line)["text"]))
        assert one.rare == one.vocab_size - sum(n >= 3 for n in uses.values())


def test_a_model_at_its_own_size_is_the_whole_model(tmp_path):
    """Where deletions pass this size and come back to it, too; to the last bit as `evaluate` measures it. What `prune
    --residues` made has no smaller model in it, nor one of a size that was passed."""
    model, text, grown = tmp_path / "m.events.jsonl", tmp_path / "t.txt", 0
    text.write_text("".join(random.Random(1).choices("abc. ", k=3000)))

    def assert_whole(log: EventLog) -> None:
        write_event_log(model, log)
        size = Model(log).n_vocab
        (beside,) = evaluate(model, str(text), resources=SMALL)
        for found in (sizes(model, str(text), resources=SMALL), sizes(model, str(text), vocab_size=size)):
            assert found[0].vocab_size == size
            for name in ("tokens", "bytes_per_token", "vocab_used_share", "renyi"):
                assert getattr(found[0], name) == beside.values[name]

    for seed in seeds(160):
        with contextlib.suppress(ModelError):  # the text encodes to a token that was deleted
            assert_whole(random_log(seed))
        odd = random_log(seed, supers=False)
        merges = EventLog(odd.header, tuple(event for event in odd.events if event.op is Op.MERGE))
        made, _ = without_residues(merges, {}, defaultdict(lambda: 1), Fraction(1, 2))
        assert_whole(made)
        most, size = Model(merges).n_vocab, Model(made).n_vocab
        assert cut_log(made, size).events == made.events
        for other in range(size + 1, most + 1):
            grown += 1
            with pytest.raises(UsageError, match=f"--vocab-size {other}: prune --residues made it"):
                cut_log(made, other)
    assert grown


def test_the_command(tmp_path):
    """Without sizes halves down to what was there before it learned; as a table, json, csv and files."""
    model, text = tmp_path / "m.events.jsonl", tmp_path / "t.txt"
    write_event_log(model, trained("plain"))
    text.write_text(DOCUMENTS[0])
    command = ("sizes", model, "--text", f"de={text}", "--text", text)
    rows = json.loads(cli(*command, "--json").stdout)
    assert [(row["group"], row["vocab_size"]) for row in rows] == [("de", 484), (ALL, 484)]
    assert (rows[1]["tokens"], rows[0]["rare"]) == (2 * rows[0]["tokens"], sizes(model, str(text), rare=RARE)[0].rare)
    told = cli(*command, "--vocab-size", "300,400", "--csv", "-o", tmp_path / "t.parquet").stdout
    assert [row["vocab_size"] for row in csv.DictReader(io.StringIO(told))] == ["400", "300"] * 2
    frame = pl.read_parquet(tmp_path / "t.parquet")
    assert frame.write_csv() == told
    assert sizes(model, {"de": str(text)}, vocab_size="300,400", output=tmp_path / "t.csv")[0].group == "de"
    shown = cli(*command, "--vocab-size", 400).stdout.splitlines()
    assert shown[0].split() == ["group", "ids", "bytes", "tokens", "bytes/token", "used/ids", "rare", "renyi"]
    assert shown[1].split()[:4] == ["de", "400", str(len(DOCUMENTS[0].encode())), f"{frame['tokens'][0]:,}"]


@pytest.mark.parametrize(
    ("kind", "config", "more", "told"),
    [
        ("plain", {}, ["--vocab-size", 900], "does not reach 900 ids"),
        ("plain", {}, ["--vocab-size", "x"], "give one number, or several"),
        ("plain", {}, ["--text", "all=t.txt"], "the last rows have this name"),
        ("plain", {}, ["--vocab-size", 100], "260 ids before any event"),
        ("plain", {}, ["-o", "t.xls"], "give such a name"),
        ("plain", {}, ["--text", "=x"], "write GROUP=FILE"),
        ("plain", {"batch": "paper"}, ["--vocab-size", 300], "cannot be cut"),
        ("plain", {"holes": 1}, ["--vocab-size", 300], "ids have holes"),
        ("picky", {}, ["--text", "-", "--vocab-size", "300,320"], "reads the text 2 times"),
    ],
)
def test_what_is_refused(kind, config, more, told, tmp_path):
    """Of BatchBPE's rounds and ids with holes there is no smaller model; standard input is read only once."""
    write_event_log(tmp_path / "m.jsonl", configured(trained(kind), **config))
    command = ("sizes", tmp_path / "m.jsonl", "--text", written(tmp_path / "t.txt", "a"), *more)
    assert told in cli(*command, expect=2).stderr
