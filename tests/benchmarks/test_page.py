"""docs/benchmarks.md and its topics are made of the committed results, and the README's figures are theirs."""

from __future__ import annotations

import re

import pytest

from tests.runs import ROOT


@pytest.fixture
def rows(measured):
    """Every row by its address."""
    found = [row for result in measured.everything() for row in result.rows]
    assert len({row.anchor for row in found}) == len(found), "two rows have one address"
    return {row.anchor: row for row in found}


def test_the_page_and_the_picture_are_those_of_the_results(benchmark, measured):
    """Whoever measures runs page.py."""
    page = benchmark("page")
    made = page.pages(measured.everything())
    assert {(ROOT / "docs" / name).read_text(encoding="utf-8") == text for name, text in made.items()} == {True}
    assert sorted(path.name for path in (ROOT / "docs/benchmarks").iterdir()) == sorted(
        f"{topic}.md" for topic in page.TOPICS
    )
    assert sum(text.count("\n") for text in made.values()) <= 1000
    assert (ROOT / "docs/beside.svg").read_text(encoding="utf-8") == page.picture()


@pytest.mark.parametrize(
    ("name", "links"),
    [("README.md", 16), ("docs/scale.md", 10), ("docs/extend.md", 3), ("docs/training.md", 1), ("docs/limits.md", 3)],
)
def test_the_figures_of_other_pages_are_measured(benchmark, measured, rows, name, links):
    """Each figure is its row's where it is linked, or its result's in a table; no time and no speed has neither."""
    text = (ROOT / name).read_text(encoding="utf-8")
    scripts = [benchmark(script) for script in ("scale", "scaling")]
    derived = [line for of in scripts for line in of.report(measured.read(measured.RESULTS / f"{of.__name__}.tsv"))]
    assert [*measured.wrong_figures(text, rows), *measured.wrong_in_tables(text, "\n".join(derived))] == []
    assert len(measured.LINKED.findall(text)) >= links
    if name in ("README.md", "docs/scale.md", "docs/extend.md"):
        assert measured.unlinked_seconds(text) == []


def test_no_peak_is_above_its_limit(rows):
    """By more than the twentieth part."""
    ratios = [row.figures["ratio"][0] for row in rows.values() if row.anchor.startswith(("limits", "soak--"))]
    assert len(ratios) > 86
    assert max(ratios) <= 1.05


def test_a_figure_that_is_not_of_its_row_is_named(measured):
    """Rounded as far as it is written, of the right unit, in a row that is there."""
    rows = {"a": measured.Row("a", {}, {"wall_s": [3.7, 3.84, 3.9], "peak_MB": [233.6] * 3})}

    def wrong(words: str, target: str = "a") -> list[str]:
        return list(measured.wrong_figures(f"it took [{words}](docs/benchmarks/memory.md#{target}).", rows))

    assert wrong("**3.8 s**, 234 MB") == wrong("4 s") == []
    assert wrong("3.6 s") == ["[3.6 s]: 3.6 s is no figure of a"]
    assert wrong("234 s") == ["[234 s]: 234 s is no figure of a"]
    assert wrong("3.8 s", "gone") == ["[3.8 s]: there is no row gone"]
    table = "<!-- figures of soak -->\n| |\n|---|\n| life | 123456.7 |\n<!-- end -->"
    assert list(measured.wrong_in_tables(table)) == ["soak: 123456.7 is not in it"]
    assert measured.unlinked_seconds("in 3.8 s, at 30 MB/s, with 200 MB") == ["3.8 s", "30 MB/s"]


def test_results_say_nothing_of_folders(measured):
    """Whoever measured: the corpus has a name, and no place on somebody's disk."""
    for path in sorted(measured.RESULTS.iterdir()):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"(?<![\w.:/-])/\w+/", line), f"{path.name}: {line[:200]}"
