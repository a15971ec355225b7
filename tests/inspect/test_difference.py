"""`diff`: which tokens two vocabularies share, and under which ids."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import shutil
from pathlib import Path

import pytest

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.page import report
from streambpe.inspect.verdict import percent
from streambpe.model.eventlog import EventLog
from streambpe.train.commands import train
from tests.runs import SMALL, cli, log_of, text_run
from tests.samples import natural_text, written

PAGE = (Path(__file__).parents[2] / "docs/evaluate.md").read_text(encoding="utf-8")
(QUERY,) = re.findall(r"```sql\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two trainings of one run: the smaller one has a special token, and breaks ties otherwise."""
    run = text_run(tmp_path_factory.mktemp("diff") / "run", natural_text(4, 40_000))
    train(run, resources=SMALL, vocab_size=500)
    train(run, resources=SMALL, vocab_size=400, name="small", ties="bytes", max_token_length=4, special=["<s>"])
    return run


def test_every_token_is_in_one_place(run):
    """Same, other id, only here, only there: together they are both vocabularies."""
    mine, theirs = (Tokenizer(model).get_vocab() for model in (run, f"{run}:small"))
    told = json.loads(cli("diff", run, f"{run}:small", "--json").stdout)
    rows = told["differences"]
    here = {bytes.fromhex(row["bytes"]): row["id_here"] for row in rows if row["id_here"] is not None}
    there = {bytes.fromhex(row["bytes"]): row["id_there"] for row in rows if row["id_there"] is not None}
    assert told["same"] == len(mine.items() & theirs.items())
    assert here.items() == mine.items() - theirs.items()
    assert there.items() == theirs.items() - mine.items()
    assert {row["difference"] for row in rows} == {"only here", "only there", "other id"}
    by_csv = list(csv.DictReader(io.StringIO(cli("diff", run, f"{run}:small", "--csv").stdout)))
    assert [row["bytes"] for row in by_csv] == [row["bytes"] for row in rows]


def test_people_see_numbers_and_examples(run):
    """Equal vocabularies are one line; others list what differs, as it can be shown."""
    equal = cli("diff", run, run / "model.events.jsonl").stdout
    assert equal.startswith("500 tokens with the same id, 0 with another, 0 only in")
    assert equal.count("\n") == 1
    shown = cli("diff", run, f"{run}:small").stdout
    assert "only there:\n" in shown
    assert re.search(r"^<s> +399$", shown, re.M)
    assert "the first 20 of" in shown


def test_the_query_of_the_docs_says_the_same(run, tmp_path):
    """As log ids, and without special tokens, which the tables do not hold; of two RUNs, too."""
    rows = json.loads(cli("sql", run, QUERY, "--json").stdout)
    mine, theirs = (Tokenizer(model).encoder.model for model in (run, f"{run}:small"))
    here = {mine.content(number): number for number in mine.model_id}
    there = {theirs.content(number): number for number in theirs.model_id}
    expected = {(here.get(token), there.get(token)) for token in here.keys() | there.keys()}
    assert {(row["id_here"], row["id_there"]) for row in rows} == {(a, b) for a, b in expected if a != b}
    other = shutil.copytree(run, tmp_path / "other")
    (attach,) = re.findall(r"`(ATTACH .*?;)`", PAGE)
    query = attach.replace("runs/other", str(other)) + QUERY.replace("small.tokens", "other.small.tokens")
    assert json.loads(cli("sql", run, query, "--files", "--json").stdout) == rows


def test_the_report_on_two_models(run, tmp_path):
    """Which is better on the same text, at the size of the smaller one, in as many tokens as each makes; only on a
    text. The playground has the log of each, and names no folder."""
    words = natural_text(6, 20_000)
    text = written(tmp_path / "text.txt", words)
    told = report(run, tmp_path / "r.html", resources=SMALL, text=[str(text)], beside=f"{run}:small").verdict
    log = log_of(run)
    larger, small = Tokenizer(EventLog(log.header, log.events[:144])), Tokenizer(f"{run}:small")
    assert larger.n_vocab == small.n_vocab == 400
    models = {run.name: larger, f"{run.name}:small": small}
    tokens = {name: len(tokenizer.encode_ordinary(words)) for name, tokenizer in models.items()}
    good, bad = sorted(tokens, key=lambda name: tokens[name])
    assert tokens[good] < tokens[bad]
    fewer = percent(1 - tokens[good] / tokens[bad])
    assert f"{good} is better than {bad} on the same text: with 400 ids it makes {fewer} fewer tokens" in told[1]
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert str(run) not in page
    for place, name in (("log", "model"), ("log-second", "small")):
        packed = re.search(rf'id="{place}">(.*?)<', page)[1]
        assert gzip.decompress(base64.b64decode(packed)) == (run / f"{name}.events.jsonl").read_bytes()
    with pytest.raises(UsageError, match="Name it with --text FILE"):
        report(run, tmp_path / "r.html", resources=SMALL, beside=f"{run}:small")
