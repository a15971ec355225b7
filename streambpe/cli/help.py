"""What --help looks like: commands in groups, and of a long list of options the common ones first."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

import click

from streambpe.options import PANELS

F = TypeVar("F", bound=Callable[..., Any])

GROUPS = {
    "Learn": dict.fromkeys(("train", "resume", "plan", "converge"), "learn"),
    "Look": {
        **dict.fromkeys(("status", "watch", "sql", "explain", "evaluate", "diff", "report", "check"), "look"),
        "docs": "pages",
    },
    "Use": dict.fromkeys(("encode", "decode", "export", "import", "prune", "extend-report"), "models"),
    "Counts": dict.fromkeys(("count", "export-counts", "merge-counts"), "learn"),
}  # by the title in --help: the commands, and the file of this folder that has each
_MOST_COLUMNS = 26  # at most, for the options in --help; the help texts stand beside


class PanelOption(click.Option):
    """An option that --help shows under the title of a panel."""

    def __init__(self, *declarations: Any, panel: str, **more: Any) -> None:
        super().__init__(*declarations, **more)
        self.panel = panel


def panel_option(panel: str, *declarations: str, **more: Any) -> Callable[[F], F]:
    """`click.option`, under the title of a panel."""
    return click.option(*declarations, cls=PanelOption, panel=panel, **more)


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
                panels[getattr(option, "panel", PANELS[-1])].append(option)
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
                    formatter.write(_wrapped(f"{title:15}{flags}", formatter.width, " " * formatter.current_indent))


_ALL = "streambpe.help.all"


def _show_help(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        ctx.meta[_ALL] = value == "all"
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _wrapped(text: str, width: int, indent: str) -> str:
    """Lines that break between flags, never inside one."""
    return (
        textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent + " " * 15, break_on_hyphens=False)
        + "\n"
    )


class CommandGroups(click.Group):
    """A group whose --help shows the commands under what they are for, each with its whole first sentence.

    A command's file is loaded when the command is asked for; all of them are for a name that nothing has, so that
    click can say which is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of --help."""
        return [name for names in GROUPS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in self.commands:
            files = {name: file for names in GROUPS.values() for name, file in names.items()}
            for file in [files[cmd_name]] if cmd_name in files else sorted(set(files.values())):
                for command in importlib.import_module(f"streambpe.cli.{file}").COMMANDS:
                    self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each of GROUPS."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                commands = [command for name in names if (command := self.get_command(ctx, name))]
                formatter.write_dl([(str(one.name), one.get_short_help_str(sys.maxsize)) for one in commands])
