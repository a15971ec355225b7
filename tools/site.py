"""Builds the docs as a site: build/site/html. `make site` runs it.

    python -m tools.site

The pages are those of docs/, as they are; docs/zensical.toml has their order. Three more are made of the program:
commands and options (click's help), tables and views (sql/), Python (signatures and docstrings). The quickstart is the
README's section "Try it". Links to other files of the repository lead to copies of them. The build is strict: a link or
an anchor that leads nowhere, a page that is missing, and a page that no menu names end it.
"""

from __future__ import annotations

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
    print(f"{(OUT / 'html/index.html').relative_to(ROOT)}: {len(list_menu())} pages")
    return 0


def pages() -> dict[str, bytes]:
    """Every file that the site is made of, by its name there; an error if a menu and the pages do not agree."""
    found: dict[str, bytes] = {}
    copied: dict[str, bytes] = {}
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file() and path.suffix in (".md", ".svg", ".png", ".css"):
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
