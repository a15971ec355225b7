"""`exact` is said of an export that was loaded in its library and compared, and of no other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from streambpe.encode.formats import export as exporting
from streambpe.encode.formats.battery import of_all_models
from streambpe.encode.formats.export import export
from streambpe.encode.formats.flat import Made
from streambpe.encode.formats.hf import hf_file
from streambpe.errors import UsageError
from streambpe.model.eventlog import EventLog, write_event_log
from streambpe.text.patterns import PRESETS
from tests.runs import cli
from tests.trained import trained

DIGEST = "3b049628e5ffb7d6"


def test_the_texts_are_always_the_same():
    """With every version of Python and `regex`; whoever changes them changes the digest."""
    texts = of_all_models()
    assert len(texts) > 5000
    assert hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16] == DIGEST


@pytest.mark.every(3)
@pytest.mark.parametrize("name", [name for name, p in PRESETS.items() if not p.by_rules])
@pytest.mark.parametrize("to", ["hf", "tiktoken"])
def test_presets_are_exact_but_for_newer_characters(tmp_path, name, to):
    """In the library; what it does not know of Unicode is told with the version."""
    log = trained("plain")
    log = EventLog(replace(log.header, config={"pattern": name}), log.events)
    [result] = export(log, to, tmp_path / "t.json")
    assert result.exact, list(result.lines())
    told = "\n".join(result.lines())
    assert "texts gave the same ids in t" in told
    assert bool(result.unicode) == ("for characters of Unicode" in told) == bool(result.battery.without_newer)


def test_a_file_that_was_broken_is_not_exact(tmp_path, monkeypatch):
    """Two merges change places, or one flag is another."""

    def swapped(document):
        merges = document["model"]["merges"]
        i, j = next((i, j) for i, a in enumerate(merges) for j, b in enumerate(merges[:i]) if a[0] == b[1] != b[0])
        merges[i], merges[j] = merges[j], merges[i]

    def flagged(document):
        document["pre_tokenizer"]["pretokenizers"][-1]["add_prefix_space"] = True

    for broken in (swapped, flagged):

        def write(encoder, path, broken=broken):
            made = hf_file(encoder, path)
            document = json.loads(made.files[path])
            broken(document)
            return Made({path: json.dumps(document).encode()}, made.lost)

        monkeypatch.setitem(exporting._WRITERS, "hf", write)
        [result] = export(trained("plain"), "hf", tmp_path / f"{broken.__name__}.json")
        assert not result.exact
        assert "exact: " not in "\n".join(result.lines()).replace("not exact: ", "")


@pytest.mark.parametrize("how", ["left out", "missing"])
def test_what_was_not_compared_is_not_exact(tmp_path, monkeypatch, how):
    """--no-compare, or no library: it is written, says why, and --verify is refused."""
    if how == "missing":
        monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    [result] = export(trained("plain"), "hf", tmp_path / "t.json", compare=how == "missing")
    assert not result.exact
    why = "--no-compare leaves it out" if how == "left out" else "it needs `pip install tokenizers`"
    assert f"  not compared: {why}" in list(result.lines())
    assert result.as_json()["exact"] is False
    with pytest.raises(UsageError, match="cannot compare this export"):
        export(trained("plain"), "hf", tmp_path / "u.json", compare=how == "missing", verify="x.txt")
    assert not (tmp_path / "u.json").exists()


def test_strict_needs_the_comparison(tmp_path):
    """Together with --no-compare it could only fail."""
    write_event_log(tmp_path / "m.jsonl", trained("plain"))
    arguments = ["export", tmp_path / "m.jsonl", "--to", "hf", "-o", tmp_path / "t.json", "--strict"]
    assert "--no-compare leaves out" in cli(*arguments, "--no-compare", expect=2).stderr
    assert not (tmp_path / "t.json").exists()
    cli(*arguments)
