"""Write streambpe/keywords.pyi: the keywords of `train` and `count` as editors and type checkers see them.

    python tools/keywords.py

They are made of the options, and a test compares them. There is no such module while the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, SourceOptions
from streambpe.options import Option, options_of
from streambpe.resources import RESOURCE_OPTIONS

TARGET = Path(__file__).parents[1] / "streambpe" / "keywords.pyi"


def kind_of(option: Option) -> str:
    """What may be given; None always means that nothing is."""
    if option.switch:
        kind = "bool"
    elif option.many:
        kind = "Mapping[str, object] | Iterable[str]"
    elif option.choices:
        kind = f"Literal[{', '.join(f'{choice!r}' for choice in option.choices)}]".replace("'", '"')
    else:
        kind = "int" if option.least is not None else "str | float | Path"
    return f"{kind} | None"


def lines_of(name: str, base: str, told: str, options: Iterable[Option]) -> list[str]:
    """One class."""
    fields = [f"    {option.name}: {kind_of(option)}" for option in options]
    return ["", f"class {name}({base}, total=False):", f'    """{told}"""', "", *fields]


def stub() -> str:
    """The whole file."""
    reading = [*options_of(CountConfig).values(), *options_of(SourceOptions).values()]
    lines = [
        '"""The keywords of `train` and `count`; made by tools/keywords.py."""',
        "",
        "from collections.abc import Iterable, Mapping",
        "from pathlib import Path",
        "from typing import Literal, TypedDict",
        *lines_of("CountKeywords", "TypedDict", "Those of `count`.", [*reading, *RESOURCE_OPTIONS]),
        *lines_of("TrainKeywords", "CountKeywords", "Those of `train`.", options_of(TrainConfig).values()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(stub(), encoding="utf-8")
