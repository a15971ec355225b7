"""The docs: links and anchors that lead somewhere, pictures that say what the program does, the pages of the site."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import streambpe
from streambpe.inspect.query import list_names
from tests.runs import EVERY_COMMAND, ROOT
from tools import pictures, reference, site

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "sql/README.md", ROOT / "benchmarks/README.md"]
)


def links(page: bytes) -> list[str]:
    """Where the links of a page lead to, outside of code."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.decode(), flags=re.M | re.S)
    return re.findall(r"\]\((?!\w+://)([^)\s]+)", text)


@cache
def anchors(page: Path) -> set[str]:
    """The ids of a page's headings as GitHub makes them, and those that are written by hand."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = set(re.findall(r'<a (?:name|id)="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page):
    """To a file of the repository and, where one is named, to a heading in it. The site's build checks its own."""
    for target, _, anchor in (link.partition("#") for link in links(page.read_bytes())):
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


def test_the_site_has_every_page_and_no_other():
    """A page without a place in the menus, and a menu without its page, are refused by `pages`."""
    found = site.pages()
    made = {name for name in found if name.endswith(".md")}
    assert made == set(site.list_menu())
    assert len(site.list_menu()) == len(made), "a page is in one menu"
    assert made > {path.name for path in (ROOT / "docs").glob("*.md")}
    for name in made:
        for target in (link.partition("#")[0] for link in links(found[name])):
            assert target in {"", *found}, (name, target)


def test_the_reference_has_every_command_option_table_and_name():
    """Made of the program, so nothing can be missing but by a defect of what makes it."""
    commands = reference.commands()
    for name, command in EVERY_COMMAND.items():
        part = commands.split(f"\n### {name}\n")[1].split("\n### ")[0]
        for param in command.params:
            for flag in param.opts if param.param_type_name == "option" and not param.hidden else ():
                assert re.search(rf"`[^`]*{re.escape(flag)}\b", part), (name, flag)
    tables = reference.tables()
    for name, _, _ in list_names():
        assert f"\n### {name}\n" in tables
    names = reference.python()
    for name in dir(streambpe):
        assert name.startswith("_") or f"\n## {name}\n" in names
    assert "\n### Tokenizer.encode\n" in names


def test_the_pictures_are_those_that_the_program_draws():
    """`python tools/pictures.py` makes them."""
    for picture in (pictures.flow(), pictures.one_pass(), pictures.index_and_scan(), pictures.where()):
        assert (ROOT / f"docs/pictures/{picture.name}.svg").read_text(encoding="utf-8") == picture.svg()
