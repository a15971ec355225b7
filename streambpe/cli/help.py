"""What --help looks like: commands in groups, and of a long list of options the common ones first."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from streambpe.errors import UsageError, meant
from streambpe.options import PANELS
from streambpe.terminal import wrapped

F = TypeVar("F", bound=Callable[..., Any])

GROUPS = {
    "Learn": {
        "train": ("learn", "learn a vocabulary"),
        "resume": ("learn", "after a stop or kill"),
        "plan": ("learn", "what will it cost?"),
        "converge": ("learn", "is more text needed?"),
        "sizes": ("look", "which size, for whom?"),
    },
    "Look": {
        "status": ("look", "what RUN is doing"),
        "watch": ("look", "the same, live"),
        "sql": ("look", "query RUN's tables"),
        "explain": ("look", "how a text is split"),
        "evaluate": ("look", "measure on texts"),
        "diff": ("look", "compare two models"),
        "report": ("look", "one page about a model"),
        "check": ("look", "recount and compare"),
        "docs": ("pages", "read the manual"),
    },
    "Use": {
        "encode": ("models", "text to ids"),
        "decode": ("models", "ids to text"),
        "export": ("models", "to other programs"),
        "import": ("models", "from other programs"),
        "prune": ("models", "drop rare tokens"),
        "extend-report": ("models", "what --extend gained"),
    },
    "Counts": {
        "count": ("learn", "count, learn later"),
        "export-counts": ("learn", "counts as a table"),
        "merge-counts": ("learn", "add up several RUNs"),
    },
}  # by the title in --help: the commands, the file of this folder that has each, and what --help says of it
_FILES = {name: file for commands in GROUPS.values() for name, (file, _) in commands.items()}
_SIDE_BY_SIDE = (("Learn", "Use"), ("Look", "Counts"))  # so that --help fits a terminal of 80 x 24
_COLUMN = 39  # characters
_MOST_COLUMNS = 26  # at most, for the options in --help; the help texts stand beside


class PanelOption(click.Option):
    """An option that --help shows under the title of a panel."""

    def __init__(self, *declarations: Any, panel: str, **more: Any) -> None:
        super().__init__(*declarations, **more)
        self.panel = panel


class PanelCommand(click.Command):
    """A command with many options: --help explains the first panel and names the others, --help all explains all."""

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """--help, which may be followed by `all`."""
        return click.Option(
            self.get_help_option_names(ctx),
            is_flag=False,
            flag_value="common",
            metavar="[all]",
            is_eager=True,
            expose_value=False,
            callback=_show_help,
            help="Show this message and exit; with all, every option.",
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the panels in their order; --help itself stands in the last one."""
        panels: dict[str, list[click.Parameter]] = {title: [] for title in PANELS}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option):
                panels[getattr(option, "panel", "") or PANELS[-1]].append(option)
        common, *others = (title for title in PANELS if panels[title])
        every = ctx.meta.get(_ALL, False)
        for title in (common, *(others if every else ())):
            records = [record for option in panels[title] if (record := option.get_help_record(ctx))]
            with formatter.section(title):
                formatter.write_dl(records, col_max=_MOST_COLUMNS)
        if not every:
            with formatter.section("More options, which --help all explains"):
                for title in others:
                    flags = " ".join(max(option.opts, key=len) for option in panels[title])
                    indent = " " * formatter.current_indent
                    formatter.write(wrapped(f"{indent}{title:15}{flags}", formatter.width, hang=15) + "\n")


_ALL = "streambpe.help.all"


def _show_help(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        ctx.meta[_ALL] = value == "all"
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class CommandGroups(click.Group):
    """A group whose --help fits one screen: the commands side by side, under what they are for.

    A command's file is loaded when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of --help."""
        return list(_FILES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; an error if there is none."""
        if cmd_name in _FILES:
            of_file = vars(importlib.import_module(f"streambpe.cli.{_FILES[cmd_name]}")).values()
            return next(one for one in of_file if isinstance(one, click.Command) and one.name == cmd_name)
        if not ctx.resilient_parsing:
            raise UsageError(f"There is no command {cmd_name}.{meant(cmd_name, _FILES)} `streambpe --help` lists them.")
        return None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, where there is room in two columns, and in the last line the options."""
        left, right = ("\n\n".join(map(_listed, titles)).splitlines() for titles in _SIDE_BY_SIDE)
        if formatter.width < 2 * _COLUMN:
            lines = [*left, "", *right]
        else:
            pairs = itertools.zip_longest(left, right, fillvalue="")
            lines = [f"{one:{_COLUMN}}{other}".rstrip() for one, other in pairs]
        formatter.write("\n" + "\n".join(lines) + "\n\nOptions: --version, --help; each command has --help, too.\n")


def _listed(title: str) -> str:
    """A group's title and its commands, a line each."""
    return "\n".join([title, *(f"  {name:15}{words}" for name, (_, words) in GROUPS[title].items())])
