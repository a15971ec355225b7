"""docs/benchmarks.md is made of the committed results, and the README's figures are theirs."""

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


def test_the_page_and_its_pictures_are_those_of_the_results(benchmark, measured):
    """Whoever measures runs page.py."""
    page, results = benchmark("page"), measured.everything()
    assert (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8") == page.page(results)
    pictures = page.pictures(results)
    assert "beside.svg" in pictures
    for name, picture in pictures.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == picture, name
    drawn = {f"{page.PICTURES}/{path.name}" for path in (ROOT / "docs" / page.PICTURES).iterdir()}
    assert drawn == set(pictures) - {"beside.svg"}


def test_the_figures_of_the_readme_are_measured(measured, rows):
    """Each time and each speed is linked to a row that has it; memory where it is linked."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert measured.wrong_figures(readme, rows) == []
    assert measured.unlinked_seconds(readme) == []
    assert readme.count("benchmarks.md#") > 20


@pytest.mark.parametrize("name", ["scale.md", "extend.md"])
def test_the_figures_of_other_pages_are_measured(benchmark, measured, rows, name):
    """Each time is linked to a row that has it, or stands in a table that is made of the results."""
    quoted = benchmark("quoted")
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert measured.wrong_figures(text, rows) == []
    assert measured.unlinked_seconds(quoted.outside(text)) == []
    assert text.count("benchmarks.md#") >= 3


def test_tables_of_other_pages_are_those_of_the_results(benchmark, measured):
    """Whoever measures runs page.py; each table is on some page, and none has an unknown name."""
    quoted, results = benchmark("quoted"), measured.everything()
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in quoted.PAGES}
    for name, text in pages.items():
        assert quoted.filled(text, results) == text, name
    assert {table for table in quoted.TABLES if any(f"page.py: {table} -->" in text for text in pages.values())} == set(
        quoted.TABLES
    )
    assert quoted.filled(pages["docs/scale.md"], []).count("| --- |") < pages["docs/scale.md"].count("| --- |")


def test_each_result_is_on_the_page(benchmark, measured):
    """Under some heading; the tasks that a forecast is made of are no result."""
    begins = tuple(begin for section in benchmark("page").SECTIONS for begin in section.begins)
    names = [result.name for result in measured.everything() if not result.name.startswith("forecast-")]
    assert [name for name in names if not name.startswith(begins)] == []


def test_the_figures_of_the_limits_are_measured(measured, rows):
    """Every peak is linked to its row, and no peak is above its limit by more than the twentieth part."""
    limits = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    assert measured.wrong_figures(limits, rows) == []
    assert limits.count("benchmarks.md#limits") == 86
    ratios = [row.figures["ratio"][0] for row in rows.values() if row.anchor.startswith(("limits", "soak--"))]
    assert len(ratios) > 86
    assert max(ratios) <= 1.05


def test_a_figure_that_is_not_of_its_row_is_named(measured):
    """Rounded as far as it is written, of the right unit, in a row that is there."""
    figures = {"wall_s": [3.7, 3.84, 3.9], "cpu_s": [5.0] * 3, "peak_MB": [233.6] * 3, "maxrss_MB": [1.0] * 3}
    figures["disk_MB"] = [77.0] * 3  # a text's MB are memory
    rows = {"train--streambpe": measured.Row("streambpe", "train--streambpe", figures, {})}

    def wrong(words: str, target: str = "train--streambpe") -> list[str]:
        return measured.wrong_figures(f"it took [{words}](docs/benchmarks.md#{target}).", rows)

    assert wrong("**3.8 s**, 234 MB") == wrong("3.84 s") == wrong("4 s, 5.0 s") == []
    assert wrong("3.6 s") == ["[3.6 s]: 3.6 s is no figure of train--streambpe"]
    assert wrong("234 s") == ["[234 s]: 234 s is no figure of train--streambpe"]
    assert wrong("77 MB") == ["[77 MB]: 77 MB is no figure of train--streambpe"]
    assert wrong("little") == ["[little]: no figure with a unit is in it"]
    assert wrong("3.8 s", "gone") == ["[3.8 s]: there is no row gone"]
    assert measured.unlinked_seconds("in 3.8 s, at 30 MB/s, with 200 MB") == ["3.8 s", "30 MB/s"]


def test_results_say_nothing_of_folders(measured):
    """Whoever measured: the corpus has a name, and no place on somebody's disk."""
    for path in sorted(measured.RESULTS.iterdir()):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"(?<![\w.:/-])/\w+/", line), f"{path.name}: {line[:200]}"
