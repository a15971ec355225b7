"""docs/cookbook.md: every query runs as it stands, by `streambpe sql` and on a plain connection, with one answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.query import list_names
from streambpe.store.database import SCHEMA, VIEWS
from streambpe.train.commands import train
from tests.runs import ROOT, SMALL, cli, rows, text_run
from tests.samples import natural_text

COOKBOOK = (ROOT / "docs/cookbook.md").read_text()
QUERIES = re.findall(r"^-- (\d+)\. .*\n(?:-- .*\n)*((?s:.+?;)\n)", COOKBOOK, re.M)
TEXT = natural_text(5, 20_000) + "the time of the people, the house of the time\n" * 25
OPTIONS = {"vocab_size": 900, "stop_list": 6, "freq_cutoff": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run with two trainings; the second one's tables are in a schema of their own."""
    run = text_run(tmp_path_factory.mktemp("cookbook") / "run", TEXT)
    train(run, resources=SMALL, **OPTIONS)
    train(run, resources=SMALL, name="small", vocab_size=400)
    return run


def ask(run: Path, *arguments: str) -> str:
    return cli("sql", run, *arguments).stdout


def test_there_are_twenty_questions():
    """Numbered 1 to 20, and nothing else is in the blocks."""
    assert [number for number, _ in QUERIES] == [str(n) for n in range(1, 21)]
    assert COOKBOOK.count(";\n") == 20


@pytest.mark.every(8)
@pytest.mark.parametrize(("number", "query"), QUERIES)
def test_a_query_answers(run, number, query):
    """It has rows, and a connection that knows nothing of streambpe gives the same ones."""
    by_command = [json.loads(line) for line in ask(run, query, "--jsonl").splitlines()]
    assert by_command
    with duckdb.connect(str(run / "state.duckdb"), read_only=True) as con:
        relation = con.sql(query)
        assert list(by_command[0]) == relation.columns
        assert json.loads(json.dumps(relation.fetchall(), default=str)) == [list(r.values()) for r in by_command]


@pytest.mark.long
def test_the_notebook_runs_without_a_browser(run, tmp_path):
    """As a page, which holds what the cells show, and as a program, where a cell that fails ends it."""
    pytest.importorskip("marimo")
    notebook, page = ROOT / "examples/explore.py", tmp_path / "page.html"
    if not notebook.exists():
        pytest.skip("an sdist has no examples")
    for command in ([notebook], ["-m", "marimo", "export", "html", notebook, "-o", page]):
        subprocess.run([sys.executable, *command], check=True, cwd=tmp_path, env={**os.environ, "RUN": str(run)})
    assert "bytes per token" in page.read_text(encoding="utf-8")


@pytest.mark.long
def test_another_training_is_seen_as_the_cookbook_says(run):
    """--name, and the two settings for the shell, show the other training's tables and views."""
    settings = re.search(r"SET VARIABLE[^`]*", COOKBOOK)
    assert settings is not None
    for what in ("vocabulary", "events", "token_usage", "single_token_chunks"):
        query = f"SELECT count(*) AS n FROM {what}"
        main_n = json.loads(ask(run, query, "--json"))[0]["n"]
        small_n = json.loads(ask(run, query, "--json", "--name", "small"))[0]["n"]
        assert small_n < main_n
        with duckdb.connect(str(run / "state.duckdb"), read_only=True) as con:
            con.execute(settings[0].replace("NAME", "small"))
            assert con.execute(query).fetchall() == [(small_n,)]


def test_token_usage_equals_encoding_the_corpus(run):
    """Uses, whole-chunk uses and bytes, against the encoder over the chunks that were learned from."""
    tokenizer = Tokenizer(run)
    chunks = dict(rows(run, "SELECT chunk, n FROM chunk_counts"))
    stops = {word.content.decode() for word in tokenizer.event_log.header.stop_words}
    learned = {chunk: n for chunk, n in chunks.items() if n >= OPTIONS["freq_cutoff"] or chunk in stops}
    assert stops
    assert len(learned) < len(chunks) - 10
    ids = {chunk: tokenizer.encoder.encode_chunk(chunk) for chunk in learned}
    alone = {chunk: n for chunk, n in learned.items() if len(ids[chunk]) == 1}
    uses: Counter[int] = Counter()
    for chunk, n in learned.items():
        for number in ids[chunk]:
            uses[number] += n
    assert dict(rows(run, "SELECT id, n FROM token_usage WHERE n > 0")) == dict(uses)
    assert dict(rows(run, "SELECT chunk, n FROM single_token_chunks")) == alone
    total = sum(chunks.values())
    shares = rows(run, "SELECT n, share, share_so_far FROM single_token_chunks")
    assert [share for _, share, _ in shares] == pytest.approx([n / total for n, _, _ in shares])
    assert shares[-1][2] == pytest.approx(sum(alone.values()) / total)
    counts = [row[0] for row in rows(run, "SELECT n FROM token_usage")]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == len(rows(run, "FROM vocabulary"))


@pytest.mark.long
def test_list_names_every_view_and_table_with_a_sentence(run):
    """All that VIEWS and SCHEMA have, and each can be asked for by its name alone."""
    listed = list_names()
    assert {name for name, kind, _ in listed if kind == "view"} == set(VIEWS)
    tables = {name for name, kind, _ in listed if kind == "table"}
    assert tables >= set(SCHEMA) - {"training"} | {"events", "tokens", "token_counts", "facts"}
    assert {row[0] for row in rows(run, "SELECT table_name FROM duckdb_tables()")} == tables
    for name, kind, sentence in listed:
        assert sentence.startswith("one row is a"), name
        assert sentence.endswith("."), name
        without = ("vetoed", "deletions", "source_groups", "group_counts", "weighted_counts", "superwords",
                   "superword_candidates", "superword_adjacency", "superword_neighbours", "superword_chunks",
                   "superword_run_numbers", "superword_runs")  # this training has none  # fmt: skip
        assert json.loads(ask(run, name, "--json")) or name in without, (name, kind)
    shown = ask(run, "--list")
    assert all(f"  {name} " in shown and sentence in shown for name, _, sentence in listed)
    as_json = json.loads(ask(run, "--list", "--json"))
    assert [tuple(row.values()) for row in as_json] == listed
