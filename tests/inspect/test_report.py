"""`report`: every number on the page against SQL or a slow recount, and the page in a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from html import escape
from pathlib import Path
from typing import Any
from weakref import WeakSet

import msgspec
import numpy as np
import pytest
from msgspec import structs

from streambpe.encode import tokenizer as of_tokenizers
from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect import curves
from streambpe.inspect import page as page_module
from streambpe.inspect.charts import linear_ticks, log_ticks, short, size_chart
from streambpe.inspect.curves import choose_stops, growth, uses_in_parts
from streambpe.inspect.page import report
from streambpe.inspect.page_facts import Facts
from streambpe.inspect.page_vocabulary import kind_of
from streambpe.inspect.sizes import size_cells, sizes
from streambpe.inspect.verdict import percent, verdict
from streambpe.model.eventlog import EventLog, Op
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.text.shown import shown
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.inspect.browser import Browser, needs_chromium
from tests.runs import SMALL, cli, rows, text_run
from tests.samples import json_lines, natural_text, written
from tests.tiers import long
from tests.trained import DOCUMENTS, trained

TEXT = natural_text(8, 20_000) + "</script><b>&amp; " * 40
OPTIONS: dict[str, Any] = {"vocab_size": 900, "stop_list": 6, "freq_cutoff": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished run with a stop list, a cut-off and a veto."""
    run = text_run(tmp_path_factory.mktemp("report") / "run", TEXT)
    train(run, resources=SMALL, block_token=("th",), **OPTIONS)
    return run


def facts_in(page: str) -> Facts:
    """The facts in a page."""
    (data,) = re.findall(r'<script type="text/plain" id="facts">(.*?)</script>', page, re.S)
    return msgspec.json.decode(gzip.decompress(base64.b64decode(data)), type=Facts)


def reported(run: Path, page: Path, **options: Any) -> Facts:
    """The facts in the page about a run."""
    report(run, page, resources=SMALL, **options)
    return facts_in(page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made(run, tmp_path_factory) -> tuple[Facts, str]:
    """The facts and the page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    return reported(run, path), path.read_text(encoding="utf-8")


def uses_in(tokenizer: Tokenizer, chunks: Iterable[tuple[str, int]]) -> Counter[int]:
    """How often each id is used in chunks with their counts, one after the other."""
    encoder, uses = tokenizer.encoder, Counter[int]()
    for chunk, n in chunks:
        for number in encoder.to_model_ids(np.array(encoder.encode_chunk(chunk), np.int32)).tolist():
            uses[number] += n
    return uses


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["picky", "plain", "whitespace", "stops"])
def test_growth_on_chunks(kind, tmp_path, monkeypatch):
    """With deletions and unknown symbols, too: each stop is the cut log. (On texts: test_sizes.py.) One encoder is held
    at a time: twelve were, 4 GB for a vocabulary of 200,000."""
    alive, most = WeakSet(), []

    class Noted(Encoder):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            alive.add(self)
            most.append(len(alive))

    monkeypatch.setattr(of_tokenizers, "Encoder", Noted)
    monkeypatch.setattr(curves, "_MOST_STOPS", 5)
    log = trained(kind)
    stops = choose_stops(log)
    assert (stops[0][0], stops[-1][0]) == (0, len(log.events))
    assert all(events == len(log.events) or log.events[events].op is not Op.DELETE for events, _ in stops)
    run, text = tmp_path / "run", json_lines(tmp_path / "run.jsonl", DOCUMENTS[:30])
    count(run, [text], pattern=log.header.config["pattern"], resources=SMALL)
    found, last = growth(log, stops, partial(uses_in_parts, parts=list_parts(Run(run)), at_once=4 << 20))
    assert max(most) <= 2
    chunks = rows(run, "SELECT chunk, n FROM chunk_counts")
    for stop, (events, size) in zip(found, stops, strict=True):
        tokenizer = Tokenizer(EventLog(log.header, log.events[:events]))
        uses = uses_in(tokenizer, chunks)
        assert tuple(map(stop.get, ("vocab_size", "tokens", "vocab_used"))) == (size, uses.total(), len(uses))
        assert stop["bytes_per_token"] == sum(len(chunk.encode()) * n for chunk, n in chunks) / uses.total()
        assert size == tokenizer.n_vocab
    assert {i: n for i, n in enumerate(last.tolist()) if n} == dict(uses)


def test_the_page_is_whole_and_fetches_nothing(run, made):
    """Well formed, each id once, its facts readable as JSON though a token spells </script>, no address in it."""
    facts, page = made
    markup = re.sub(r"(<(script|style)\b[^>]*>).*?(?=</\2>)", r"\1", page, flags=re.S)
    opened, closed = (Counter(re.findall(tag, markup)) for tag in (r"<(\w+)(?:\s[^>]*)?(?<!/)>", r"</(\w+)>"))
    assert opened == closed + Counter({name: opened[name] for name in ("meta", "link", "input")})
    ids = re.findall(r'\sid="([^"]*)"', markup)
    assert len(ids) == len(set(ids))
    links = set(re.findall(r'\s(?:src|href|xlink:href)="([^"]*)"', markup))
    assert links - {f"#{name}" for name in ids} == {"data:,"}
    assert not re.search(r"https?://|@import|url\(", page)
    titles = [
        "How does it cut a text?",
        "Which tokens are in it?",
        "How large should it be?",
        "What was it learned from?",
    ]
    assert re.findall(r"<h2>(.*?)</h2>", page) == titles
    assert re.findall(r'<a href="#[\w-]+">(.*?)</a>', page) == titles
    assert page.count("<svg") == 1
    assert facts.model == "run"  # a page may be given away: it names no folder
    assert str(run) not in page + repr(facts)


def test_the_command_writes_where_it_is_told(run, tmp_path):
    """-o, --text; a folder that is not there is one message."""
    text = written(tmp_path / "t.txt", "the end of the day\n" * 20)
    told = json.loads(cli("report", run, "-o", tmp_path / "r.html", "--text", text, "--json").stdout)
    page = (tmp_path / "r.html").read_text()
    assert "Measured on t.txt" in page
    assert told["figures"] == facts_in(page).growth[-1]
    assert all(f"<p>{escape(sentence)}</p>" in page for sentence in told["verdict"])
    assert "is not a folder" in cli("report", run, "-o", tmp_path / "no" / "r.html", expect=2).stderr
    assert "no model 'other'" in cli("report", f"{run}:other", expect=1).stderr


def test_the_table_of_sizes(run, tmp_path):
    """By group, as `sizes` prints it, with what other names could do escaped; not of standard input, which is read
    once, nor of a folder whose name has an =."""
    (tmp_path / "x=y").mkdir()
    files = [written(tmp_path / f"x=y/{i}.txt", natural_text(i, 3000)) for i in range(3)]
    texts = [f"de={files[0]}", f"<b>={files[1]}", str(files[2])]
    facts = reported(run, tmp_path / "r.html", text=texts)
    assert facts.sizes == sizes(str(run), texts, resources=SMALL)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    table = re.findall(r'id="groups".*?<table>(.*?)</table>', page, re.S)[0]
    cells = [re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row) for row in re.findall("<tr>(.*?)</tr>", table)]
    assert cells == [list(map(escape, row)) for row in size_cells(facts.sizes)]
    assert [row[0] for row in cells[1::2]] == ["de", "&lt;b&gt;", "all"]
    assert "bytes of " in page
    assert reported(run, tmp_path / "r.html", text={"de": str(files[0])}).sizes[0].group == "de"
    cli("report", run, "-o", tmp_path / "r.html", "--text", "-", input=natural_text(3, 3000))
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert facts_in(page).sizes == []
    assert 'id="groups"' not in page


def test_charts_have_scales():
    """Round ticks; nothing to draw is no picture."""
    assert linear_ticks(0.8) == [0, 0.2, 0.4, 0.6, 0.8]
    assert log_ticks(40, 300) == [50, 100, 200]
    assert [short(v) for v in (0, 0.25, 12, 3500, 2e6, 1.25e9)] == ["0", "0.25", "12", "3.5k", "2M", "1.25G"]
    assert size_chart([("a", [])]) == ""


@needs_chromium
@pytest.mark.long
def test_the_page_in_a_browser(made, tmp_path):
    """Wide and light, narrow as a phone and dark: the chart is drawn, nothing is too wide, no console message."""
    (facts, page), colours = made, []
    address = written(tmp_path / "page.html", page).as_uri()
    with Browser(tmp_path) as browser:
        for width, dark in ((1300, False), (375, True), (3840, False)):
            browser.open(address, width=width, dark=dark)
            assert browser.run("[...document.querySelectorAll('.line')].every(line => line.getTotalLength() > 50)")
            assert browser.run("document.documentElement.scrollWidth") <= width
            script = """(() => {
                const chart = document.getElementById("chart"), box = chart.getBoundingClientRect();
                const at = {clientX: box.left + box.width - 20, clientY: box.top + 40};
                chart.dispatchEvent(new PointerEvent("pointermove", at));
                const text = tip.textContent;
                chart.dispatchEvent(new PointerEvent("pointerleave"));
                return [text, tip.hidden];
            })()"""
            last = facts.growth[-1]
            told, hidden = browser.run(script)
            bytes_per_token = float(f"{last['bytes_per_token']:.4g}")
            assert told == f"{last['vocab_size']:,}: {bytes_per_token}"
            assert hidden
            browser.run("document.querySelector('#sizes details').open = true")
            numbers = browser.run("document.querySelector('#sizes tbody').lastElementChild.textContent")
            assert numbers == told.replace(": ", "")
            colours.append(browser.run("getComputedStyle(document.body).backgroundColor"))
        assert browser.complaints == []
    assert colours[0] == colours[2] != colours[1]


@needs_chromium
@pytest.mark.long
def test_the_vocabulary_in_a_browser(made, tmp_path):
    """Searched by text and by kind, sorted, listed a hundred at a time."""
    vocabulary = made[0].vocabulary
    with Browser(tmp_path) as browser:
        browser.open(written(tmp_path / "page.html", made[1]).as_uri(), width=390)
        browser.wait_for("document.getElementById('vocabulary').dataset.ready")

        def listed(column: int) -> list[str]:
            found: list[str] = browser.run(
                f"[...document.querySelectorAll('#ids tbody tr')].map(row => row.children[{column}].textContent)"
            )
            return found

        def look(text: str, kind: str = "all") -> None:
            browser.run(f"sought.value = {json.dumps(text)}; kind.value = {json.dumps(kind)}; "
                        "kind.dispatchEvent(new Event('change'))")  # fmt: skip

        def sort(key: str) -> None:
            browser.run(f"document.querySelector('th[data-key={key}] button').click()")

        learned = [number for number, event in enumerate(vocabulary.event) if event is not None]
        assert listed(0) == [str(number) for number in learned[:100]]
        assert listed(4) == [f"{vocabulary.event[number]:,}" for number in learned[:100]]
        browser.run("more.click()")
        assert len(listed(0)) == 200
        look(" th")
        assert listed(1) == [text.replace("␠", " ") for text in vocabulary.shown if "␠th" in text.lower()]
        assert browser.run("document.querySelector('.blank').getBoundingClientRect().width") > 4
        look("", "begins a word")
        assert browser.run("found.textContent").startswith(f"{vocabulary.kind.count('W'):,} ids")
        look("")
        sort("uses")
        assert listed(6) == [f"{n:,}" for n in sorted(vocabulary.uses, reverse=True)[:100]]
        sort("uses")
        assert listed(6) == [f"{n:,}" for n in sorted(vocabulary.uses)[:100]]
        assert browser.run("document.querySelector('th[data-key=uses]').getAttribute('aria-sort')") == "ascending"
        sort("count")
        assert listed(5)[0] == f"{max(n for n in vocabulary.n if n is not None):,}"
        assert browser.run("document.images.length") == 0
        assert browser.complaints == []


@pytest.mark.parametrize(
    ("content", "letter"),
    [(" the", "W"), ("ing", "i"), (" नि", "W"), ("don't", "i"), (" 12", "d"), ("--", "c"), (" (", "c"), ("  \n", "z"),
     ("a1", "m"), ("▁w", "W"), (b"\xe2\x80", "p"), ("\u0301", "i"), (" ", "z")],
)  # fmt: skip
def test_kinds_of_tokens(content, letter):
    """By what a token holds."""
    content = content if isinstance(content, bytes) else content.encode()
    assert kind_of(content) == letter


def test_the_verdict_is_that_of_the_figures(made):
    """Every figure of the sentences at the top is one of the facts; each reason to change something is found."""
    facts = made[0]
    last = facts.growth[-1]
    figures, change = verdict(facts)
    wanted = f"{last['vocab_size']:,} ids", f"{last['bytes_per_token']:.3f} bytes", percent(last["vocab_used_share"])
    assert all(figure in figures for figure in wanted)
    assert change.startswith(f"To change: use more text. {last['tokens']:,} tokens")
    many = [{**stop, "tokens": stop["tokens"] * 100} for stop in facts.growth]
    facts = structs.replace(facts, growth=many, vocabulary=structs.replace(facts.vocabulary, uses=[1] * 900))
    rare = sum(n is not None and n < 100 for n in facts.vocabulary.n)
    change = verdict(facts)[-1]
    assert change.startswith("To change: learn from more text")
    assert f"{rare:,} tokens come from pairs" in change
    facts.vocabulary.n = [100] * 900
    assert "try a larger --vocab-size" in verdict(facts)[-1]
    facts.growth = [{**many[-1], "vocab_size": 450}, many[-1]]
    assert verdict(facts)[-1].startswith("Nothing has to change")
    facts.vocabulary.uses = [0] * 900
    learned = sum(event is not None for event in facts.vocabulary.event)
    assert f"{learned:,} learned tokens are never used in {facts.measured_on}" in verdict(facts)[-1]
    facts.growth = [{**many[-1], "tokens": 0}]
    assert verdict(facts) == ["There is no text to measure it on."]


VOCABULARY = """
SELECT t.id, t.bytes, t.kind, coalesce(e.op = 'supermerge', false), e.seq + 1, e.n
FROM tokens AS t LEFT JOIN events AS e ON e.seq = t.born WHERE t.died IS NULL ORDER BY t.id
"""


@pytest.mark.parametrize(
    "options",
    [{"stop_list": 6}, long({"tau": "0.6"}), long({"like": "script", "vocab_size": 2300}),
     long({"like": "picky", "tau": "0.8"}), long({"superwords": "boundless", "pattern": "boundless", "stop_list": 3})],
)  # fmt: skip
def test_the_vocabulary_is_that_of_the_tables(tmp_path, options):
    """With deletions, superwords, stop words and SCRIPT symbols: the text, the kind, the first event and its count; and
    uses that add up."""
    text, run = written(tmp_path / "text.txt", natural_text(5, 30_000)), tmp_path / "run"
    train(run, [str(text)], lines=True, resources=SMALL, **{"vocab_size": 500, **options})
    facts, tokenizer = reported(run, tmp_path / "page.html", text=[str(text)]), Tokenizer(run)
    vocabulary, model = facts.vocabulary, tokenizer.encoder.model
    assert f"{len(model.events):,}, sha256 {dict(rows(run, 'FROM facts'))['sha256']}" == dict(facts.head)["events"]
    uses = Counter(tokenizer.encode_ordinary(text.read_text(encoding="utf-8")))
    assert {vocabulary.first_id + place: n for place, n in enumerate(vocabulary.uses) if n} == uses
    found = {model.model_id[number]: row for number, *row in rows(run, VOCABULARY)}
    for place, told in enumerate(zip(vocabulary.shown, vocabulary.kind, vocabulary.event, vocabulary.n, strict=True)):
        if told[1] != "x":
            content, kind, joined, event, n = found.pop(vocabulary.first_id + place)
            letter = {"base": "b", "stop word": "s"}.get(kind) or ("w" if joined else kind_of(content))
            assert told == (shown(content), letter, event, n)
    assert not found


def test_superwords_are_measured_on_texts_alone(tmp_path):
    """Chunks do not show the use of what spans several."""
    run, text = tmp_path / "run", written(tmp_path / "text.txt", natural_text(4, 12_000))
    options = ("--lines", "--pattern", "boundless", "--superwords", "boundless", "--vocab-size", 300)
    cli("train", run, text, *options, "--memory", "400MB")
    for command in (("report", run), ("prune", run, "--to", 290)):
        refused = cli(*command, "-o", tmp_path / "out", expect=2).stderr
        assert "Give texts to measure on, such as the RUN's sources: --text FILE" in refused
    pruned = json.loads(
        cli("prune", run, "--to", 290, "-o", tmp_path / "p.events.jsonl", "--json", "--text", text).stdout
    )
    facts = reported(run, tmp_path / "r.html", text=[str(text)])
    assert pruned["bytes_per_token_before"] == facts.growth[-1]["bytes_per_token"]


def test_the_playground_is_left_out_where_it_would_not_be_exact(run, tmp_path, monkeypatch):
    """For a pattern that JavaScript cannot say, and where the page would be too large: the page says why."""
    odd = text_run(tmp_path / "odd", natural_text(3, 10_000), pattern=r"(\w)\1|(?s:.)")
    train(odd, resources=SMALL, vocab_size=300)

    def page(of: Path, *options: str) -> str:
        cli("report", of, "-o", tmp_path / "r.html", *options)
        return (tmp_path / "r.html").read_text(encoding="utf-8")

    assert "There is no playground here: a browser cannot split as this model does" in page(odd)
    assert "playground here" not in page(odd, "--no-playground")
    assert 'id="playground"' in page(run)
    monkeypatch.setattr(page_module, "_MOST_BYTES", 50_000)
    assert "There is no playground here: with it the page has more than 50 KB." in page(run)
