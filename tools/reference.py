"""The pages of the site that are made of the program: commands and options, tables and views, Python."""

from __future__ import annotations

import dataclasses
import html
import inspect
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import click

import streambpe
from streambpe.cli.help import GROUPS, PanelCommand
from streambpe.cli.main import main as program
from streambpe.inspect.query import list_names
from streambpe.options import PANELS, options_of
from streambpe.store.database import MACROS, VIEWS, create_schema, open_store, use_training
from streambpe.store.sqlfiles import read_sql
from streambpe.train.commands import train

ROOT = Path(__file__).resolve().parents[1]
_OPENING = "<!-- made of the program by tools/reference.py -->\n"
_WITH_METHODS = ("Tokenizer",)  # the others come back
_WIDTH = 100  # of a signature in one line


def commands() -> str:
    """Every command with its help and all its options, in the groups of `streambpe --help`."""
    lines = [_OPENING, "# Commands and options\n"]
    lines.append("What `streambpe COMMAND --help all` says, as one page. What arguments look like, exit codes and ")
    lines.append("environment variables: [The command line](cli.md).\n")
    for group, names in GROUPS.items():
        lines.append(f"\n## {group}\n")
        for name in names:
            lines += [f"\n### {name}\n", *_command(name, program.get_command(None, name))]
    return "\n".join(lines) + "\n"


def _command(name: str, command: click.Command) -> list[str]:
    ctx = click.Context(command, info_name=f"streambpe {name}")
    lines = [f"```text\n{' '.join(command.get_usage(ctx).split()).removeprefix('Usage: ')}\n```\n"]
    lines += _help_text(command.help or "")
    panels: dict[str, list[tuple[str, str]]] = {title: [] for title in (*PANELS, "")}
    other = PANELS[-1] if isinstance(command, PanelCommand) else ""
    for option in command.params:
        if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
            panels[getattr(option, "panel", "") or other].append(record)
    for title, records in panels.items():
        if records:
            lines += [f"\n| {title or 'option'} | |", "|---|---|"]
            lines += [f"| {_flag(flag)} | {_cell(_marked(text))} |" for flag, text in records]
    return lines


def _help_text(text: str) -> list[str]:
    """Paragraphs; those that click does not wrap (lists, examples) stay as they are."""
    lines = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            lines.append(f"```text\n{paragraph.removeprefix(chr(8)).strip(chr(10))}\n```\n")
        else:
            lines.append(_marked(" ".join(paragraph.split())) + "\n")
    return lines


def _marked(text: str) -> str:
    """Plain text as Markdown: what is already code stays code, nothing else is taken for a mark."""
    parts = re.split(r"(`[^`]*`)", text)
    marked = "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]])", r"\\\1", part) for part in parts)
    return re.sub(r"`streambpe docs ([a-z-]+)`", r"[\g<0>](\1.md)", marked)  # what the terminal shows, the site links


def _flag(text: str) -> str:
    """An option as code that may break between its choices: a telephone is narrow."""
    return f"<code>{html.escape(text).replace('|', '&#124;<wbr>')}</code>"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def tables() -> str:
    """Every table and view of state.duckdb: what one row is, its columns, and the SQL that makes it."""
    lines = [_OPENING, "# Tables and views\n"]
    lines.append(
        "What `streambpe sql RUN` can ask. Each file of SQL is shown as it lies in `sql/`; its comments say what "
    )
    lines.append("a column holds. Twenty questions and their queries: [Cookbook](cookbook.md).\n")
    with closing(open_store(":memory:")) as con:
        create_schema(con)
        use_training(con, "main", create=True)
        for view in VIEWS:
            con.execute(read_sql(f"views/{view}"))
        columns = {
            name: con.execute("SELECT column_name, column_type FROM (DESCRIBE FROM query_table(?))", [name]).fetchall()
            for name, _, _ in list_names()
        }
    for kind, title in (("table", "Tables"), ("view", "Views")):
        lines.append(f"\n## {title}\n")
        for name, what, sentence in list_names():
            if what == kind:
                lines += [
                    f"\n### {name}\n",
                    f"{_marked(sentence[0].upper() + sentence[1:])}\n",
                    "| column | type | |",
                    "|---|---|---|",
                ]
                said = _comments(name) if kind == "table" else {}
                lines += [
                    f"| `{column}` | {form} | {_cell(_marked(said.get(column, '')))} |"
                    for column, form in columns[name]
                ]
                if kind == "view":
                    lines.append(_folded(f"sql/views/{name}.sql", read_sql(f"views/{name}")))
    lines.append("\n## The files of the tables\n")
    for path in sorted((ROOT / "sql/schema").glob("*.sql")):
        lines.append(_folded(f"sql/schema/{path.name}", path.read_text("utf-8")))
    for macro in MACROS:
        lines.append(_folded(f"sql/macros/{macro}.sql", read_sql(f"macros/{macro}")))
    return "\n".join(lines) + "\n"


def _comments(table: str) -> dict[str, str]:
    """What the file of a table says of its columns, by column."""
    for path in sorted((ROOT / "sql/schema").glob("*.sql")):
        text = path.read_text("utf-8")
        block = re.search(rf"^CREATE TABLE IF NOT EXISTS {table} \((.*?)^\)", text, re.M | re.S)
        if block:
            return dict(re.findall(r"^ +\"?(\w+)\"? .*?-- (.*)$", block[1], re.M))
    raise LookupError(f"no file in sql/schema makes table {table}")


def _folded(title: str, sql: str) -> str:
    return (
        f'\n??? note "{title}"\n\n'
        + "\n".join("    " + line for line in f"```sql\n{sql.strip()}\n```".splitlines())
        + "\n"
    )


def python() -> str:
    """The public names: signatures, docstrings, methods, fields."""
    lines = [_OPENING, "# Python: every public name\n"]
    lines.append("How to use them: [Python](python.md). The keywords that a signature does not name are ")
    lines.append("[options of the command](commands.md) with the same name: `--vocab-size` is `vocab_size`.\n")
    names = [name for name in dir(streambpe) if not name.startswith("_")]
    for name in sorted(names, key=lambda name: (name[0].isupper(), name.lower())):
        thing = getattr(streambpe, name)
        lines += [f"\n## {name}\n", *_thing(name, thing)]
    return "\n".join(lines) + "\n"


def _thing(name: str, thing: Any) -> list[str]:
    if not inspect.isclass(thing):
        function = train if thing is streambpe.train else thing  # which is a package, too
        return [_signature(name, function), _docstring(function)]
    lines = [_docstring(thing)]
    if dataclasses.is_dataclass(thing):
        options = options_of(thing)
        lines += ["| field | default | |", "|---|---|---|"]
        for field in dataclasses.fields(thing):
            option = options.get(field.name)
            default = "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"
            lines.append(f"| `{field.name}` | {_cell(default)} | {_cell(_marked(option.help)) if option else ''} |")
    if name not in _WITH_METHODS:
        return lines
    for method, value in vars(thing).items():
        call = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if method.startswith("_"):
            continue
        if isinstance(call, property):
            lines += [f"\n### {name}.{method}\n", _docstring(call.fget)]
        elif inspect.isfunction(call):
            lines += [f"\n### {name}.{method}\n", _signature(method, call), _docstring(call)]
    return lines


def _signature(name: str, thing: Callable[..., Any]) -> str:
    """One line, or a line for each argument where that is too long."""
    signature = inspect.signature(thing)
    shown, stars = [], False
    for argument in signature.parameters.values():
        if argument.name in ("self", "cls"):
            continue
        if argument.kind is argument.KEYWORD_ONLY and not stars:
            shown.append("*")
            stars = True
        stars |= argument.kind is argument.VAR_POSITIONAL
        shown.append(_argument(argument))
    result = _type(signature.return_annotation)
    result = f" -> {result}" if result else ""
    text = f"{name}({', '.join(shown)}){result}"
    if len(text) > _WIDTH:
        text = f"{name}(\n" + "".join(f"    {argument},\n" for argument in shown) + f"){result}"
    return f"```python\n{text}\n```\n"


def _argument(argument: inspect.Parameter) -> str:
    stars = {argument.VAR_POSITIONAL: "*", argument.VAR_KEYWORD: "**"}.get(argument.kind, "")
    kind, default = _type(argument.annotation), ""
    if argument.default is not argument.empty:
        value = repr(argument.default)
        value = f"{type(argument.default).__name__}()" if dataclasses.is_dataclass(argument.default) else value
        default = f" = {value}" if kind else f"={value}"
    return stars + argument.name + (f": {kind}" if kind else "") + default


def _type(annotation: object) -> str:
    """As it is written in the source, without the names of modules."""
    if annotation is inspect.Signature.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def _docstring(thing: object) -> str:
    """As it stands, with its examples as code."""
    text = inspect.getdoc(thing) or ""
    parts = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("    "):
            parts.append(f"```python\n{inspect.cleandoc(paragraph)}\n```")
        else:
            parts.append(_marked(paragraph))
    return "\n\n".join(parts) + "\n"
