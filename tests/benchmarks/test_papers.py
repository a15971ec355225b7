"""What the papers' tables are computed from, beside the tables of a RUN."""

from __future__ import annotations

import json

import duckdb
import pytest

import streambpe
from streambpe.store.models import read_model
from tests.runs import ROOT

SAMPLE = ROOT / "tests/data/sample"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training with deletions and superwords."""
    folder = tmp_path_factory.mktemp("papers") / "run"
    streambpe.train(folder, [SAMPLE], vocab_size=1500, pattern="boundless", superwords="boundless", tau=0.6)
    return folder


def test_how_often_tokens_occur_follows_from_the_events(benchmark, tmp_path):
    """Of every learned token, as table token_counts has it: of words, with each place of a pair counted once."""
    run = tmp_path / "run"
    streambpe.train(run, SAMPLE, vocab_size=1500, pattern="boundless", tau=0.6, overlaps="disjoint")
    log = read_model(run)
    occurs = benchmark("paper_texts").occurrences(log)
    assert "delete" in {str(event.op) for event in log.events}
    with duckdb.connect(str(run / "state.duckdb"), read_only=True) as tables:
        rows = tables.sql("SELECT id, n FROM main.token_counts").fetchall()
    counted = {token: n for token, n in rows if token in occurs}
    assert len(counted) > 500
    assert counted == {token: n for token, n in occurs.items() if n}


def test_shares_of_deletions_are_those_of_the_view(benchmark, run):
    """IoS is `merged` of `merged` and `split`; of a token that is deleted twice the last is told."""
    told = benchmark("paper_boundless").shares_of_deletions(read_model(run))
    with duckdb.connect(str(run / "state.duckdb"), read_only=True) as tables:
        rows = tables.sql("SELECT bytes, share FROM deletions ORDER BY seq").fetchall()
    assert len(rows) > 20
    assert {content: round(share, 9) for content, share in told.items()} == {
        bytes(content): round(share, 9) for content, share in rows if share is not None
    }


def test_languages_are_told_apart(benchmark, tmp_path):
    """Each by its letters and words; Ukrainian and Persian are left out."""
    lines = {
        "Japanese": "東京は日本の首都です。", "Chinese": "天地玄黃，宇宙洪荒。", "Thai": "สวัสดีชาวโลก",
        "Hindi": "यह एक वाक्य है और",
        "Korean": "안녕하세요 세계", "Russian": "Все люди рождаются свободными и равными", "Hebrew": "שלום עולם",
        "Arabic": "يولد جميع الناس أحرارا", "Vietnamese": "Tất cả mọi người sinh ra đều được tự do",
        "German": "Alle Menschen sind frei und gleich an Würde und Rechten geboren",
        "English": "All of them are born free and equal in dignity and rights",
        "Punjabi": "ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ",
    }  # fmt: skip
    text = tmp_path / "text.txt"
    others = ["Всі люди народжуються вільними і рівними", "تمام افراد بشر آزاد به دنیا می‌آیند", "1234"]
    text.write_text("\n".join([*lines.values(), *others]) + "\n", encoding="utf-8")
    found = benchmark("paper_script")._told_apart(text)
    assert found == {name: [line + "\n"] for name, line in lines.items()}


def test_a_tokenizer_of_tokenizers_is_measured_as_evaluate_does(benchmark, tmp_path):
    """Its bytes per token and its share of chunks that are one token, by `evaluate` and by counting its ids."""
    papers = benchmark("paper_texts")
    text = tmp_path / "text.jsonl"
    documents = [path.read_text(encoding="utf-8") for path in sorted(SAMPLE.glob("*.txt"))]
    text.write_text("\n".join(json.dumps({"text": document}) for document in documents) + "\n", encoding="utf-8")
    tokens, found = papers.rival("WordPiece", papers.Texts(text, text, None, tmp_path), 1000)
    assert b" the" in tokens
    assert int(found.n.sum()) == found.values["tokens"]
    size = sum(len(document.encode()) for document in documents)
    assert found.values["bytes_per_token"] == pytest.approx(size / found.values["tokens"])
    assert 0.2 < found.values["single_token_chunks"] < 1
