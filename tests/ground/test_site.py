"""The docs as a site: nothing comes from another host, and the search finds guides before benchmarks and changes."""

from __future__ import annotations

import json

import pytest

from tools import site


def test_what_a_page_loads_from_another_host_is_found(tmp_path):
    """Scripts, styles and pictures; what a reader follows, and what lies beside the page, is not."""
    near = '<a class="x" href="https://a.example/">a</a><link rel="icon" href="icon.png"><script src="./b.js"></script>'
    far = (
        '<script async src="https://b.example/x.js"></script><link href=//c.example/c.css><img alt="" src="http://d/e">'
    )
    (tmp_path / "a.html").write_text(near)
    assert list(site.loaded_elsewhere(tmp_path)) == []
    (tmp_path / "b.html").write_text(far)
    assert list(site.loaded_elsewhere(tmp_path)) == [
        "b.html loads https://b.example/x.js", "b.html loads //c.example/c.css", "b.html loads http://d/e"
    ]  # fmt: skip


@pytest.mark.long
def test_the_site_loads_nothing_and_is_searched_in_order(tmp_path, monkeypatch):
    """Of its pages as they are built; words that a guide has lead to no benchmark and no change."""
    pytest.importorskip("zensical")
    monkeypatch.setattr(site, "OUT", tmp_path / "site")
    assert site.main() == 0
    html = tmp_path / "site/html"
    assert list(site.loaded_elsewhere(html)) == []
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
