"""`report`: every number on the page against SQL or a slow recount, and the page in a browser."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections import Counter
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from streambpe.config import TrainConfig
from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect import curves
from streambpe.inspect.charts import Series, line_chart, linear_ticks, log_ticks, short, thinned
from streambpe.inspect.curves import choose_stops, growth_on_chunks, growth_on_texts
from streambpe.inspect.page import grouped, panels, render, report, supermerge_shares
from streambpe.model.eventlog import EventLog, Op
from streambpe.store.run import Run
from streambpe.train.commands import train
from streambpe.train.trainer import Trainer
from tests.runs import SMALL, cli, log_of, rows, text_run
from tests.samples import natural_text
from tests.trained import DOCUMENTS, trained

TEXT = natural_text(8, 60_000) + "</script><b>&amp; " * 40
OPTIONS: dict[str, Any] = {"vocab_size": 900, "stop_list": 6, "freq_cutoff": 2}
EMPTY_WORDS = {
    "super-share": "no superwords",
    "deletions": "takes no token back",
    "longest-superwords": "no superwords",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished run with a stop list, a cut-off and a veto."""
    run = text_run(tmp_path_factory.mktemp("report") / "run", TEXT)
    train(run, resources=SMALL, block_tokens=("th",), **OPTIONS)
    return run


@pytest.fixture(scope="module")
def made(run, tmp_path_factory) -> tuple[dict[str, Any], str]:
    """The facts and the page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    return report(run, path, resources=SMALL), path.read_text(encoding="utf-8")


def renyi(counts: list[int], size: int) -> float:
    total = sum(counts)
    return math.log2(sum((n / total) ** 2.5 for n in counts)) / -1.5 / math.log2(size)


def test_what_the_tables_say_is_what_the_page_says(run, made):
    """Events, passes, stop words, cut-off, vetoes and the longest tokens, by SQL of the test's own."""
    facts, _ = made
    assert facts["merges"] == rows(run, "SELECT seq + 1, n FROM events ORDER BY seq")
    assert len(facts["merges"]) == facts["events"] == len(log_of(run).events)
    passes = rows(run, "SELECT first_seq + events, events, seconds, memory_bytes FROM batches ORDER BY batch")
    assert [(p["events_so_far"], p["events"], p["memory_bytes"]) for p in facts["passes"]] == [
        (so_far, events, memory) for so_far, events, _, memory in passes
    ]
    assert facts["passes"][-1]["seconds_so_far"] == pytest.approx(sum(row[2] for row in passes))
    for shown, row in zip(facts["passes"], passes, strict=True):
        assert shown["events_per_second"] == pytest.approx(row[1] / row[2])
    chunks = dict(rows(run, "SELECT chunk, n FROM chunk_counts"))
    stops = {word.content.decode(): chunks[word.content.decode()] for word in log_of(run).header.stop_words}
    assert stops
    assert dict(facts["stop_words"]) == stops
    below = {chunk: n for chunk, n in chunks.items() if n < 2 and chunk not in stops}
    assert below
    assert facts["cutoff"] == {
        "freq_cutoff": 2, "chunks": len(chunks), "occurrences": sum(chunks.values()),
        "chunks_left_out": len(below), "occurrences_left_out": sum(below.values()),
    }  # fmt: skip
    assert facts["vetoed"] == len(rows(run, "FROM vetoed")) > 0
    longest = rows(run, "SELECT text, length FROM vocabulary WHERE kind = 'learned' ORDER BY length DESC, id LIMIT 20")
    assert [length for _, length, _ in facts["longest_tokens"]] == [length for _, length in longest]
    assert facts["sha256"] == dict(rows(run, "FROM facts"))["sha256"]


@pytest.mark.long
def test_growth_equals_encoding_every_chunk_at_every_size(run, made):
    """Tokens, ids used, Rényi and bytes per token of a vocabulary cut to each size; the last is the whole."""
    facts, _ = made
    chunks = dict(rows(run, "SELECT chunk, n FROM chunk_counts"))
    text_bytes = sum(len(chunk.encode()) * n for chunk, n in chunks.items())
    sizes = [stop["size"] for stop in facts["growth"]]
    assert sizes == sorted(sizes)
    assert len(sizes) > 6
    assert sizes[-1] == OPTIONS["vocab_size"]
    uses: Counter[int] = Counter()
    for stop in facts["growth"]:
        tokenizer = Tokenizer.load(run, stop["size"])
        uses = Counter()
        for chunk, n in chunks.items():
            for number in tokenizer.encoder.encode_chunk(chunk):
                uses[number] += n
        total = sum(uses.values())
        assert (stop["tokens"], stop["used"]) == (total, len(uses))
        assert stop["used_share"] == len(uses) / stop["size"]
        assert stop["bytes_per_token"] == pytest.approx(text_bytes / total)
        assert stop["renyi"] == pytest.approx(renyi(list(uses.values()), len(uses)))
        assert stop["renyi_vocab"] == pytest.approx(renyi(list(uses.values()), stop["size"]))
    assert facts["frequencies"] == sorted(uses.values(), reverse=True)


def test_growth_without_a_cut_off_equals_the_view(tmp_path):
    """Where nothing is left out the page's frequencies are those of view token_usage."""
    run = text_run(tmp_path / "run", natural_text(2, 20_000))
    train(run, resources=SMALL, vocab_size=500)
    facts = report(run, tmp_path / "r.html", resources=SMALL)
    assert facts["frequencies"] == [n for (n,) in rows(run, "SELECT n FROM token_usage WHERE n > 0 ORDER BY n DESC")]
    ((per_token,),) = rows(run, "SELECT sum(n * length) / sum(n) FROM token_usage")
    assert facts["growth"][-1]["bytes_per_token"] == pytest.approx(per_token)


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", ["plain", "picky", "stops", "whitespace", "superbpe", "boundless", "uw"])
def test_growth_of_every_kind_of_model(kind, tmp_path, monkeypatch):
    """On chunks, with deletions and unknown symbols, and on texts, with superwords: each stop is the cut log."""
    monkeypatch.setattr(curves, "_MOST_STOPS", 5)
    log = trained(kind)
    stops = choose_stops(log)
    assert stops[0][0] == 0
    assert stops[-1][0] == len(log.events)
    assert all(events == len(log.events) or log.events[events].op is not Op.DELETE for events, _ in stops)
    text = tmp_path / "run.jsonl"
    text.write_text("".join(json.dumps({"text": document}) + "\n" for document in DOCUMENTS[:30]), encoding="utf-8")
    if any(event.op is Op.SUPERMERGE for event in log.events) or kind == "uw":
        for stop, (events, size) in zip(growth_on_texts(log, [str(text)], SMALL), stops, strict=True):
            tokenizer = Tokenizer.from_event_log(EventLog(log.header, log.events[:events]))
            uses = Counter(number for document in DOCUMENTS[:30] for number in tokenizer.encode_ordinary(document))
            assert stop.size == size == tokenizer.n_vocab
            assert {i: int(n) for i, n in enumerate(stop.n) if n} == dict(uses)
            assert stop.bytes == sum(len(document.encode()) for document in DOCUMENTS[:30])
        return
    pattern = log.header.config["pattern"]
    run = tmp_path / "run"
    cli("count", run, text, "--pattern", pattern, "--memory", "300MB")
    chunks = rows(run, "SELECT chunk, n FROM chunk_counts")
    for stop, (events, size) in zip(growth_on_chunks(Run(run), log), stops, strict=True):
        encoder = Encoder(EventLog(log.header, log.events[:events]))
        uses = Counter()
        for chunk, n in chunks:
            for number in encoder.encode_chunk(chunk):
                uses[number if number >= 0 else len(stop.n) - 1] += n
        assert stop.size == size == encoder.model.n_vocab
        assert {i: int(n) for i, n in enumerate(stop.n) if n} == dict(uses)


def test_a_page_with_superwords_and_deletions(made, tmp_path):
    """Their panels have pictures, and those that need a text say so."""
    facts = {**made[0], "growth": [], "frequencies": []}
    facts["supermerges"] = [(i, n) for i, n in facts["merges"] if i % 3 == 0]
    facts["merges"] = [(i, n) for i, n in facts["merges"] if i % 3]
    facts["deletions"] = [(10, 5), (20, 6)]
    facts["longest_superwords"] = [(" of the <end>", 13, 40)]
    shares = supermerge_shares(facts)
    assert shares[2] == [3, 1 / 3]
    assert shares[-1][1] == pytest.approx(len(facts["supermerges"]) / len(shares))
    by_name = {panel.name: panel for panel in panels(facts)}
    for name in ("merge-counts", "super-share", "deletions"):
        assert by_name[name].chart.startswith("<svg"), name
    assert by_name["deletions"].rows == [(10, 1), (20, 2)]
    for name in ("frequencies", "used", "renyi", "compression"):
        assert not by_name[name].chart
        assert "--text FILE" in by_name[name].says
    page = render(facts)
    assert "&lt;end&gt;" in page
    assert ">supermerges</li>" in page


class Structure(HTMLParser):
    """Tags that are open, ids, and what is fetched."""

    VOID = ("meta", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.fetched += [str(found[key]) for key in ("src", "href", "xlink:href") if found.get(key)]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("line", "polyline", "circle")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(made):
    """Well formed, each id once, its facts readable as JSON though a token spells </script>, no address in it."""
    facts, page = made
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    assert len(structure.ids) == len(set(structure.ids))
    assert structure.fetched == ["data:,"]
    assert not re.search(r"https?://|@import|url\(", page)
    (data,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', page, re.S)
    assert json.loads(data) == json.loads(json.dumps(facts))
    for panel in panels(facts):
        assert panel.chart or panel.rows or panel.says, panel.name
        assert f'id="{panel.name}"' in page
        if panel.name in EMPTY_WORDS:
            assert EMPTY_WORDS[panel.name] in panel.says
    assert page.count("<svg") == 7


def test_an_unfinished_run_has_a_page_too(tmp_path):
    """While it learns, what is known is shown, and the rest says why it is not."""
    run = text_run(tmp_path / "run", natural_text(2, 20_000))
    assert "nothing of a training main" in cli("report", run, "-o", tmp_path / "r.html", expect=1).stderr

    class Enough(Exception):
        """Ends the training between two passes."""

    passes = []

    def stop_after_some(batch: Any) -> None:
        passes.append(batch)
        if len(passes) > 8:
            raise Enough

    job = Trainer(run, TrainConfig(vocab_size=600), resources=SMALL, checkpoint_seconds=0.0, on_batch=stop_after_some)
    with pytest.raises(Enough):
        job.run()
    cli("report", run, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "still learning" in page
    assert "Not measured while the run still learns." in page
    assert "chart-merge-counts" in page


def test_the_command_writes_where_it_is_told(run, tmp_path):
    """-o, --text; a folder that is not there is one message."""
    (tmp_path / "t.txt").write_text("the end of the day\n" * 20)
    done = cli("report", run, "-o", tmp_path / "r.html", "--text", tmp_path / "t.txt")
    assert "events of" in done.stderr
    assert "Measured on" in (tmp_path / "r.html").read_text()
    assert "is no folder" in cli("report", run, "-o", tmp_path / "no" / "r.html", expect=2).stderr
    assert "nothing of a training other" in cli("report", run, "--name", "other", expect=1).stderr


def test_charts_scale_and_thin():
    """Round ticks; few points of many, the ends among them; nothing to draw is no picture."""
    assert linear_ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert linear_ticks(0, 0.8) == [0, 0.2, 0.4, 0.6, 0.8]
    assert log_ticks(1, 1000) == [1, 10, 100, 1000]
    assert log_ticks(40, 300) == [50, 100, 200]
    assert [short(v) for v in (0, 0.25, 12, 3500, 2e6, 1.25e9)] == ["0", "0.25", "12", "3.5k", "2M", "1.25G"]
    points = [(float(i), 1.0) for i in range(1, 100_001)]
    for log in (False, True):
        some = thinned(points, log)
        assert len(some) <= 400
        assert (some[0], some[-1]) == (points[0], points[-1])
    assert line_chart("x", [Series("a", [])], x="x", y="y") == ""
    assert line_chart("x", [Series("a", [(1, 0)])], x="x", y="y", log_y=True) == ""
    assert "<circle" in line_chart("x", [Series("a", [(1, 5)])], x="x", y="y", log_y=True)
    passes = [
        {"events_so_far": 2 * i, "seconds_so_far": i / 2, "events": 2, "events_per_second": 4.0} for i in range(1, 1001)
    ]
    means = grouped(passes)
    assert len(means) <= 120
    assert means[-1]["events_so_far"] == 2000
    assert all(p["events"] == 2 and p["events_per_second"] == pytest.approx(4) for p in means)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROBE = """
<script>
addEventListener("load", () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument, found = {};
  found.charts = [...page.querySelectorAll("svg.chart")].map(c => c.id);
  found.drawn = [...page.querySelectorAll(".line")].every(l => l.getTotalLength() > 50);
  found.wide = page.documentElement.scrollWidth;
  found.page = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
  found.line = frame.contentWindow.getComputedStyle(page.querySelector(".line")).stroke;
  const chart = page.getElementById("chart-renyi"), box = chart.getBoundingClientRect();
  chart.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width - 20, clientY: box.top + 40}));
  found.tip = page.getElementById("tip").textContent;
  chart.dispatchEvent(new PointerEvent("pointerleave"));
  found.hidden = page.getElementById("tip").hidden;
  document.title = JSON.stringify(found);
});
</script>
"""


def browse(folder: Path, page: str, width: int, *options: str) -> dict[str, Any]:
    """Open the page in a frame so wide; what the probe saw. Any word on the console fails."""
    assert CHROMIUM is not None
    outer = folder / "outer.html"
    outer.write_text(
        f'<!doctype html><meta charset="utf-8"><iframe style="width:{width}px;height:900px;border:0" '
        f'srcdoc="{escape(page)}"></iframe>{PROBE}',
        encoding="utf-8",
    )
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
         f"--user-data-dir={folder / 'profile'}", *options, outer.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.S)
    assert title is not None, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(title[1].replace("&amp;", "&"))
    return found


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the page is not opened in a browser")
def test_the_page_in_a_browser(made, tmp_path):
    """Wide and light, narrow as a phone and dark: all charts are drawn, nothing is too wide, no console message."""
    facts, page = made
    light = browse(tmp_path, page, 1300, "--blink-settings=preferredColorScheme=1")
    dark = browse(tmp_path, page, 375, "--blink-settings=preferredColorScheme=0")
    charts = [
        f"chart-{name}" for name in ("merge-counts", "frequencies", "used", "renyi", "compression", "batches", "speed")
    ]
    for seen, width in ((light, 1300), (dark, 375)):
        assert seen["charts"] == charts
        assert seen["drawn"]
        assert seen["wide"] <= width
        last = facts["growth"][-1]
        efficiency = float(f"{last['renyi']:.4g}")
        assert f"over ids that occur  {last['size']:,}: {efficiency}" in seen["tip"]
        assert seen["hidden"]
    assert light["page"] != dark["page"]
    assert light["line"] != dark["line"]
