"""`diff`: which tokens two vocabularies share, and under which ids."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from streambpe.encode.tokenizer import Tokenizer
from streambpe.train.commands import train
from tests.runs import SMALL, cli, text_run
from tests.samples import natural_text

PAGE = (Path(__file__).parents[2] / "docs/evaluate.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two trainings of one run: the smaller one has a special token, and breaks ties otherwise."""
    run = text_run(tmp_path_factory.mktemp("diff") / "run", natural_text(4, 40_000))
    train(run, resources=SMALL, vocab_size=500)
    train(run, resources=SMALL, vocab_size=400, name="small", ties="bytes", max_token_length=4, specials=["<s>"])
    return run


def test_every_token_is_in_one_place(run):
    """Same, other id, only here, only there: together they are both vocabularies."""
    mine, theirs = (Tokenizer.load(model).get_vocab() for model in (run, f"{run}:small"))
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


def test_the_query_of_the_docs_says_the_same(run):
    """As log ids, and without special tokens, which the tables do not hold."""
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE, re.S)
    rows = json.loads(cli("sql", run, query, "--json").stdout)
    mine, theirs = (Tokenizer.load(model).encoder.model for model in (run, f"{run}:small"))
    here = {mine.content(number): number for number in mine.model_id}
    there = {theirs.content(number): number for number in theirs.model_id}
    expected = {(here.get(token), there.get(token)) for token in here.keys() | there.keys()}
    assert {(row["id_here"], row["id_there"]) for row in rows} == {(a, b) for a, b in expected if a != b}
