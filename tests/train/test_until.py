"""train --until-bytes-per-token: the smallest size that reaches it, learned as any training of this size is."""

from __future__ import annotations

import json
import threading

import pytest

from streambpe.encode.formats.export import cut_log
from streambpe.errors import Stopped
from streambpe.inspect.evaluate import evaluate
from streambpe.model.eventlog import read_event_log, write_event_log
from streambpe.store.job import read_jobs
from streambpe.store.run import Run
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count
from tests.runs import SMALL, cli
from tests.samples import natural_text
from tests.tiers import long

OPTIONS = {
    "plain": {},
    "beside": {"special": ("<s>",), "reserve": 2, "count_specials": False, "alphabet": "bytes"},
    "characters": {"encoding": "chars", "coverage": "0.99", "whole_characters": False},
    "whole": {"whole_characters": True, "normalize": "nfc", "weight": {"a": "2"}},
    "balance": {"balance": True},
    "sample": {"sample": "1/3", "lines": True},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two groups, and a text of neither."""
    folder = tmp_path_factory.mktemp("until")
    for i, name in enumerate(("a", "b", "held-out")):
        (folder / f"{name}.txt").write_text(natural_text(i + 1, 12_000) + "\nnaïve 日本語 ñ" * i, encoding="utf-8")
    return folder


def bytes_per_token(folder, log, size, lines=False) -> float:
    write_event_log(folder / "cut.events.jsonl", cut_log(log, size))
    return evaluate(folder / "cut.events.jsonl", folder / "held-out.txt", lines=lines, resources=SMALL)[0].values[
        "bytes_per_token"
    ]


@pytest.mark.parametrize("kind", [kind if kind == "beside" else long(kind) for kind in OPTIONS])
def test_it_is_the_smallest_training_that_reaches_it(kind, corpus, tmp_path):
    """One size less does not reach it, by what `evaluate` says; events and header are those of a training of this
    size."""
    how = {"group": ("a=a.txt", "b=b.txt")} if kind in ("whole", "balance") else {}
    sources = [str(corpus / f"{name}.txt") for name in "ab"]
    whole = train(tmp_path / "run", sources, vocab_size=700, resources=SMALL, **OPTIONS[kind], **how)
    log, beside, lines = read_event_log(whole.log), 0, kind == "sample"
    if not OPTIONS[kind].get("count_specials", True):
        beside = len(log.header.specials) + log.header.reserved
    least = whole.size - len({event.id for event in log.events})
    for at in [(least + whole.size) // 2] if kind == "beside" else [least, (least + whole.size) // 2, whole.size]:
        target = int(bytes_per_token(corpus, log, at, lines) * 1000) / 1000
        text = str(corpus / "held-out.txt")
        found = train(
            tmp_path / "run", name=f"u{at}", vocab_size=700, until_bytes_per_token=target, text=text, resources=SMALL,
            **OPTIONS[kind],
        )  # fmt: skip
        assert found.size <= at
        assert bytes_per_token(corpus, log, found.size, lines) >= target
        assert found.size == least or bytes_per_token(corpus, log, found.size - 1, lines) < target
        same = train(tmp_path / "run", name=f"v{at}", vocab_size=found.size - beside, resources=SMALL, **OPTIONS[kind])
        assert found.log.read_bytes() == same.log.read_bytes()
        assert read_jobs(Run(tmp_path / "run")).trainings[f"u{at}"].config.vocab_size == found.size - beside
        again = train(tmp_path / "run", name=f"u{at}", until_bytes_per_token=target, text=text, resources=SMALL)
        assert (again.skipped, again.sha256) == (True, found.sha256)


@pytest.mark.long
def test_an_extension_stops_too(corpus, tmp_path):
    """Not below the model that it extends."""
    old = train(tmp_path / "old", str(corpus / "a.txt"), vocab_size=300, resources=SMALL)
    text = str(corpus / "held-out.txt")
    sizes = {}
    for target in ("0.5", "1.9"):
        found = train(
            tmp_path / "new", str(corpus / "b.txt"), extend=old.log, vocab_size=600, name=f"n{target[0]}",
            until_bytes_per_token=target, text=[text], resources=SMALL,
        )  # fmt: skip
        log = read_event_log(found.log)
        assert bytes_per_token(corpus, log, found.size) >= float(target)
        sizes[target] = found.size
    assert sizes["0.5"] == 300 < sizes["1.9"] < 600
    assert bytes_per_token(corpus, log, found.size - 1) < 1.9


@pytest.mark.long
def test_stopped_and_resumed(corpus, tmp_path):
    """Stopped while it looks for the size, `resume` looks again."""
    stop = threading.Event()
    stop.set()
    run, text = tmp_path / "run", str(corpus / "held-out.txt")
    count(run, [str(corpus / "a.txt")], resources=SMALL)
    wanted = {"vocab_size": 500, "until_bytes_per_token": "1.5", "text": text, "resources": SMALL}
    with pytest.raises(Stopped, match="streambpe resume"):
        train(run, stop=stop, **wanted)
    assert not (run / "model.events.jsonl").exists()
    found = resume(run, resources=SMALL)
    assert found.sha256 == train(run, name="again", **wanted).sha256
    assert 256 < found.size < 500
    assert "vocab-size = 500" not in (run / "train.toml").read_text()


def test_what_is_not_reached_is_told(corpus, tmp_path):
    """The vocabulary has --vocab-size ids then."""
    text = ("--until-bytes-per-token", 9, "--text", corpus / "held-out.txt", "--memory", "300MB")
    told = cli("train", tmp_path / "run", corpus / "a.txt", "-s", 300, *text, "--json").stdout
    assert json.loads(told)["size"] == 300
    assert "--until-bytes-per-token 9 is not reached with 300 ids: the text has 1." in json.loads(told)["warnings"][0]
