"""What click finds wrong on the command line, said as every other error is: what, what may be meant, where to look."""

from __future__ import annotations

from collections.abc import Sequence

import click

from streambpe.cli.help import PanelCommand
from streambpe.errors import UsageError, meant, shortened

# What other programs call something, and what it is called here.
_FLAGS = {"eot": "--special", "special-token": "--special", "workers": "--threads", "jobs": "--threads"}
_WORDS = {"tokenizers": "hf", "transformers": "hf", "huggingface": "hf", "llama.cpp": "gguf"}


class OneOf(click.Choice):  # type: ignore[type-arg]  # generic in newer releases of click only
    """One of a few words; of a word that is none of them, the message says which one may be meant."""

    def get_invalid_choice_message(self, value: str, ctx: click.Context | None) -> str:
        """The message."""
        known = [*self.choices, *(word for word, ours in _WORDS.items() if ours in self.choices)]
        return f"{value} is none of {', '.join(self.choices)}.{meant(value.lower(), known, _WORDS)}"


def as_usage_error(error: click.ClickException, given: Sequence[str]) -> UsageError:
    """click's error as one of the library's. `given`: the words behind `streambpe`."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    said = shortened(error.message).rstrip(".")
    if isinstance(error, click.MissingParameter) and error.param:
        said = f"{_name(error.param)} is missing"
    elif isinstance(error, click.BadParameter) and error.param:
        said = f"{_name(error.param)}: {said}"
    elif isinstance(error, click.BadOptionUsage):  # "Option '-s' requires an argument"
        said = f"{error.option_name} {said.split(maxsplit=2)[-1]}"
    elif isinstance(error, click.NoSuchOption):
        params = [p for p in (ctx.command.get_params(ctx) if ctx else ()) if isinstance(p, click.Option)]
        flags = {flag.lstrip("-"): flag for param in params for flag in (*param.opts, *param.secondary_opts)}
        flags |= {word: flag for word, flag in _FLAGS.items() if flag in flags.values()}
        said = f"There is no option {error.option_name}.{meant(error.option_name.lstrip('-'), flags, flags)}"
    command = ctx.command_path if ctx else " ".join(["streambpe", *given[:1]])
    more = " all" if ctx and isinstance(ctx.command, PanelCommand) else ""
    end = "" if said[-1] in ".?" else "."
    return UsageError(f"{said}{end} Nothing was done. `{command} --help{more}` explains the command.")


def _name(param: click.Parameter) -> str:
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name.strip("[].")
