"""Builds the docs as a site: build/site/html. `make site` runs it.

    python -m tools.site

The pages are those of docs/, as they are; docs/zensical.toml has their order. Three more are made of the program:
commands and options (click's help), tables and views (sql/), Python (signatures and docstrings). The quickstart is the
README's section "Try it". Links to other files of the repository lead to copies of them. The build is strict: a link or
an anchor that leads nowhere, a page that is missing, a page that no menu names, and a page that loads anything from
another host end it. The search finds benchmarks and changes last.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools import reference

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build/site"
# pages that lie elsewhere in the repository, and what they are called in the site
ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "sql/README.md": "sql.md",
    "benchmarks/README.md": "measuring.md",
    "README.md": "quickstart.md",
}
MADE = {"commands.md": reference.commands, "tables.md": reference.tables, "python-reference.md": reference.python}
_WORD = re.compile(r"\w+")
SEARCHED_LAST = ("benchmarks", "changelog", "measuring")  # how the addresses of these pages begin
_LOADED = re.compile(r"""<(?!a\b)\w+\b[^>]*?\s(?:src|href|srcset)=["']?((?:https?:)?//[^"'\s>]+)""")
_LINK = re.compile(r"(?<!`)(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"(^```.*?^```)", re.M | re.S)


def main() -> int:
    """Write the pages and build the site; the exit code."""
    shutil.rmtree(OUT, ignore_errors=True)
    for name, content in pages().items():
        path = OUT / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    shutil.copyfile(ROOT / "docs/zensical.toml", OUT / "zensical.toml")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", str(OUT / "zensical.toml")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode:
        told = re.sub(r"\x1b\[[\d;]*m", "", done.stdout)  # colours, and what Python adds to the list of issues
        print(told.split("\nTraceback")[0], file=sys.stderr)
        return done.returncode
    if found := list(loaded_elsewhere(OUT / "html")):
        print("\n".join(found), file=sys.stderr)
        return 1
    put_last(OUT / "html")
    print(f"{os.path.relpath(OUT / 'html/index.html')}: {len(list_menu())} pages")
    return 0


def loaded_elsewhere(html: Path) -> Iterator[str]:
    """What the pages of a site load from another host; links that a reader follows are none."""
    for path in sorted(html.rglob("*.html")):
        for address in _LOADED.findall(path.read_text("utf-8")):
            yield f"{path.relative_to(html)} loads {address}"


def put_last(html: Path) -> None:
    """Let the search find each page of SEARCHED_LAST only by its title, and by words that no other page has."""
    index = json.loads((html / "search.json").read_text("utf-8"))
    others = [item for item in index["items"] if not item["location"].startswith(SEARCHED_LAST)]
    known = {word for item in others for word in _WORD.findall(f"{item['title']} {item['text']}".lower())}
    last: dict[str, dict[str, Any]] = {}
    for item in index["items"]:
        if item["location"].startswith(SEARCHED_LAST):
            page = last.setdefault(item["location"].partition("#")[0], {**item, "text": ""})
            words = dict.fromkeys(_WORD.findall(f"{item['title']} {re.sub('<[^>]*>', ' ', item['text'])}"))
            page["text"] += " ".join(word for word in words if word.lower() not in known) + " "
    told = json.dumps({**index, "items": [*others, *last.values()]}, ensure_ascii=False)
    (html / "search.json").write_text(told, "utf-8")
    (html / "search.js").write_text(f"var __index = {told}", "utf-8")


def pages() -> dict[str, bytes]:
    """Every file that the site is made of, by its name there; an error if a menu and the pages do not agree."""
    found: dict[str, bytes] = {}
    copied: dict[str, bytes] = {}
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file() and path.suffix in (".md", ".svg", ".png", ".css", ".js"):
            name = path.relative_to(ROOT / "docs").as_posix()
            text = path.suffix == ".md"
            found[name] = _page(path.read_text("utf-8"), path, copied) if text else path.read_bytes()
    for place, name in ELSEWHERE.items():
        text_ = (ROOT / place).read_text("utf-8")
        if place == "README.md":
            text_ = "# Try it\n" + text_.split("## Try it\n", 1)[1].split("\n## ", 1)[0]
        found[name] = _page(text_, ROOT / place, copied)
    for name, make in MADE.items():
        found[name] = _bars(make()).encode()
    menu, made = set(list_menu()), {name for name in found if name.endswith(".md")}
    if menu != made:
        raise SystemExit(f"docs/zensical.toml and the pages differ: {', '.join(sorted(menu ^ made))}")
    return found | copied


def list_menu() -> list[str]:
    """The pages that the menus name, in order."""
    project: Mapping[str, Any] = tomllib.loads((ROOT / "docs/zensical.toml").read_text("utf-8"))["project"]
    return list(_names(project["nav"]))


def _names(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _names(part)


def _page(text: str, path: Path, copied: dict[str, bytes]) -> bytes:
    """A page of the repository with links that work in the site."""

    def link(found: re.Match[str]) -> str:
        target, hash_, anchor = found[2].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        place = (path.parent / target).resolve()
        return f"{found[1]}{_moved(place, copied)}{hash_}{anchor}{found[3]}"

    parts = _FENCE.split(text)  # code keeps what it says
    return "".join(part if part.startswith("```") else _bars(_LINK.sub(link, part)) for part in parts).encode()


def _bars(text: str) -> str:
    """In tables, a bar inside of code has a backslash for GitHub; the site would show it."""

    def row(line: re.Match[str]) -> str:
        return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line[0])

    return re.sub(r"^\|.*$", row, text, flags=re.M)


def _moved(place: Path, copied: dict[str, bytes]) -> str:
    """What a link to a file of the repository says in the site."""
    name = place.relative_to(ROOT).as_posix()
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if name.startswith("docs/") and place.suffix != ".toml":
        return name.removeprefix("docs/")
    if place.is_dir():  # a page with what is in it
        names = sorted(entry.name for entry in place.iterdir() if entry.name != "__pycache__")
        copied[f"files/{name}.txt"] = ("\n".join([f"{name}/", *names]) + "\n").encode()
    else:
        copied[f"files/{name}.txt"] = place.read_bytes()
    return f"files/{name}.txt"


if __name__ == "__main__":
    sys.exit(main())
