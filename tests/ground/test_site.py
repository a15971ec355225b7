"""The docs as a site: nothing comes from another host, and the search finds guides before benchmarks and changes."""

from __future__ import annotations

import json

import pytest

from tests.samples import written
from tools import site


@pytest.mark.long
def test_the_site_loads_nothing_and_is_searched_in_order(tmp_path, monkeypatch):
    """Of its pages as they are built; words that a guide has lead to no benchmark and no change."""
    pytest.importorskip("zensical")
    monkeypatch.setattr(site, "OUT", tmp_path / "site")
    assert site.main() == 0
    html = tmp_path / "site/html"
    assert list(site.loaded_elsewhere(html)) == []
    written(html / "far.html", '<a href="https://a/">a</a><script async src="https://b/x.js"></script><img src=//c/d>')
    assert list(site.loaded_elsewhere(html)) == ["far.html loads https://b/x.js", "far.html loads //c/d"]
    first = (html / "index.html").read_text(encoding="utf-8")
    for told in ("iframe-worker.js", "page.png", *(f"streambpe {name} runs/" for name in ("train", "check", "export"))):
        assert told in first
    index = json.loads((html / "search.json").read_text(encoding="utf-8"))
    assert (html / "search.js").read_text(encoding="utf-8") == f"var __index = {json.dumps(index, ensure_ascii=False)}"
    items = index["items"]
    last = [item for item in items if item["location"].startswith(site.SEARCHED_LAST)]
    assert items[-len(last) :] == last
    assert {item["location"] for item in last} == {
        name.replace(".md", ".html") for name in site.list_menu() if name.startswith(site.SEARCHED_LAST)
    }
    assert any("gigabpe" in item["text"] for item in last)
    assert not any("memory" in item["text"].split() for item in last)
    found = [item["location"] for item in items if "out of memory" in item["title"].lower()]
    assert found == ["troubleshooting.html#out-of-memory-and-other-ways-to-stop"]
