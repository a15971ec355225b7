"""`streambpe docs`: the pages that are installed with the program, in the terminal."""

from __future__ import annotations

import sys

import click

from streambpe.cli.told import terminal_columns
from streambpe.errors import UsageError
from streambpe.files import packaged_folder

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
    """Show a page of the docs; without PAGE, which pages there are.

    On a terminal it is laid out for reading; elsewhere it comes as it is, in Markdown.

    \b
    example:
        streambpe docs
        streambpe docs training
        streambpe docs superwords | less
    """
    known = titles()
    if page is None:
        width = max(map(len, known))
        click.echo("\n".join(f"{name:{width}}  {title}" for name, title in known.items()))
        return
    name = page.rpartition("/")[2].removesuffix(".md")
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, 1)
        meant = f" Did you mean `streambpe docs {near[0]}`?" if near else ""
        raise UsageError(f"There is no page {page}.{meant} `streambpe docs` lists them.")
    text = packaged_folder("docs").joinpath(f"{name}.md").read_text(encoding="utf-8")
    columns = terminal_columns()
    if columns is None:
        sys.stdout.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(columns, _MOST_COLUMNS)).print(Markdown(text, hyperlinks=False))


COMMANDS = (docs,)
