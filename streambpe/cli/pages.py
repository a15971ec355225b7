"""`streambpe docs`: the pages that are installed with the program, in the terminal."""

from __future__ import annotations

import sys

import click

from streambpe.errors import UsageError, meant
from streambpe.files import packaged_folder
from streambpe.inspect.columns import print_columns
from streambpe.terminal import columns_of

_MOST_COLUMNS = 100


def titles() -> dict[str, str]:
    """The heading of each page, by its name."""
    pages = sorted(
        (page for page in packaged_folder("docs").iterdir() if page.name.endswith(".md")), key=lambda page: page.name
    )
    return {
        page.name.removesuffix(".md"): page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for page in pages
    }


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Show a page of the docs; without PAGE, list them.

    On a terminal it is laid out for reading; elsewhere it comes as it is, in Markdown.

    \b
    example:
        streambpe docs
        streambpe docs training
        streambpe docs superwords | less
    """
    known = titles()
    if page is None:
        print_columns([*known.items()], 2, sys.stdout)
        return
    name = page.rpartition("/")[2].removesuffix(".md")
    if name not in known:
        raise UsageError(f"There is no page {page}.{meant(name, known)} `streambpe docs` lists them.")
    text = packaged_folder("docs").joinpath(f"{name}.md").read_text(encoding="utf-8")
    columns = columns_of(sys.stdout)
    if columns is None:
        sys.stdout.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(columns, _MOST_COLUMNS)).print(Markdown(text, hyperlinks=False))
