"""Write streambpe/*.pyi: the public names, and the keywords of the functions, as type checkers see them.

    python tools/keywords.py

They are made of the options, and a test compares them. There is no such module while the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from streambpe.api import HOME_OF
from streambpe.arguments import READING_OPTIONS
from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, SourceOptions
from streambpe.encode.formats.hf_folder import Roles
from streambpe.options import Option, options_of
from streambpe.resources import LIMIT_OPTIONS, PLANNING_OPTIONS, RESOURCE_OPTIONS

PACKAGE = Path(__file__).parents[1] / "streambpe"


def kind_of(option: Option) -> str:
    """What may be given; None always means that nothing is."""
    if option.switch:
        kind = "bool"
    elif option.many:
        kind = "str | Mapping[str, object] | Iterable[str]"
    elif option.choices:
        kind = f"Literal[{', '.join(f'{choice!r}' for choice in option.choices)}]".replace("'", '"')
    else:
        kind = "int | str" if option.least is not None else "str | float | Path"
    return f"{kind} | None"


def lines_of(name: str, base: str, told: str, options: Iterable[Option]) -> list[str]:
    """One class."""
    known = [f"    {option.keyword}: {kind_of(option)}" for option in options]
    return ["", f"class {name}({base}, total=False):", f'    """{told}"""', *([""] if known else []), *known]


def stub() -> str:
    """The whole file."""
    grouping = [option for option in options_of(SourceOptions).values() if option not in READING_OPTIONS]
    named = {option.name: option for option in RESOURCE_OPTIONS}
    job = [option for option in PLANNING_OPTIONS if option not in LIMIT_OPTIONS]
    counting = [named["max_disk"], named["learner"], *grouping, *options_of(CountConfig).values()]
    lines = [
        '"""The keywords of the functions; made by tools/keywords.py."""',
        "",
        "from collections.abc import Iterable, Mapping",
        "from pathlib import Path",
        "from typing import Literal, TypedDict",
        *lines_of("LimitKeywords", "TypedDict", "What every function may use.", LIMIT_OPTIONS),
        *lines_of("JobKeywords", "LimitKeywords", "What a job may use.", job),
        *lines_of("ReadKeywords", "LimitKeywords", "How texts are read.", READING_OPTIONS),
        *lines_of("CountKeywords", "ReadKeywords, JobKeywords", "Those of `count`.", counting),
        *lines_of("LearnKeywords", "LimitKeywords", "Those of learning alone.", options_of(TrainConfig).values()),
        *lines_of("TrainKeywords", "CountKeywords, LearnKeywords", "Those of `train`.", []),
        *lines_of("EncodeKeywords", "ReadKeywords, JobKeywords", "Those of `encode_corpus`.", []),
        "",
        "class RoleKeywords(TypedDict, total=False):",
        '    """What special tokens are for."""',
        "",
        *(f"    {role.name}: {role.type}" for role in fields(Roles)),
    ]
    return "\n".join(lines) + "\n"


def package_stub() -> str:
    """The names of the package, which it loads when they are used."""
    imports = sorted(f"from streambpe.{home} import {name} as {name}" for name, home in HOME_OF.items())
    return "\n".join(['"""The public names; made by tools/keywords.py."""', "", *imports, "", "__version__: str", ""])


MADE = {"keywords.pyi": stub, "__init__.pyi": package_stub}


if __name__ == "__main__":
    for name, made in MADE.items():
        (PACKAGE / name).write_text(made(), encoding="utf-8")
