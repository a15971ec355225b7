"""What an option is, stated once: at the field of the class that holds it.

    _vocabulary = functools.partial(option, panel="Vocabulary")
    min_frequency: int = _vocabulary(1, "Stop when the best pair is rarer.", least=0)

The options of the commands and their --help (cli/options.py), option files (option_file.py), the checks of choices and
lower bounds (config.py), and the tests of the pages in docs/ all read it there. The classes: TrainConfig,
CountConfig, SourceOptions, Resources.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, SupportsIndex, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import structs

from streambpe.errors import UsageError

T = TypeVar("T")
MOST = 2**63 - 1  # of any whole number: what the core and the tables hold
MOST_IDS = 2**31 - 1  # in 32 bits with a sign
MOST_EMPTY_IDS = 1 << 20  # ids before the first symbol, and reserved ones: a few bytes in a file, much memory in tables
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
DecimalText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(\.[0-9]+)?(e-?[0-9]+)?$")]  # as a text, which is exact
PANELS = (
    "Most used",
    "Corpus",
    "Splitting",
    "Vocabulary",
    "Compatibility",
    "Deletions",
    "Superwords",
    "Resources",
    "Output",
)  # titles in --help, in their order


class Option(msgspec.Struct, frozen=True):
    """One option, besides the type and the default that the field itself has."""

    name: str  # of the field
    flag: str  # --min-frequency
    help: str
    panel: str
    metavar: str | None = None  # None: N, if it is a number
    choices: tuple[str, ...] = ()  # those of the field's Literal
    untold: tuple[str, ...] = ()  # values of it that no user gives, but another option or a model made elsewhere
    least: int | None = None  # the smallest number allowed
    most: int | None = MOST  # the largest, where there is a smallest; None: who reads it knows more
    off: str = ""  # the flag that turns a switch off
    default: Any = None
    told_default: str = ""  # shown where the default is not a value: "all cores"
    short: str = ""
    many: bool = False  # may be given more than once, as the field holds several

    @property
    def key(self) -> str:
        """Its name in an option file."""
        return self.flag.removeprefix("--")

    @property
    def keyword(self) -> str:
        """Its name in Python."""
        return self.key.replace("-", "_")

    @property
    def switch(self) -> bool:
        """Whether it is on or off, and takes no value."""
        return isinstance(self.default, bool)

    @property
    def shown_default(self) -> str:
        """The default as --help shows it; empty if there is nothing to say."""
        if self.told_default or self.switch or self.default in (None, "", ()):
            return self.told_default
        return str(self.default)


def option(default: Any, help: str, *, panel: str, **more: Any) -> Any:
    """The field of a dataclass that is an option; its default may be MISSING, or `dict`. `more`: the other fields of
    Option."""
    metadata = {"option": Option("", more.pop("flag", ""), help, panel, **more)}
    return (
        field(default_factory=dict, metadata=metadata) if default is dict else field(default=default, metadata=metadata)
    )


@functools.cache
def options_of(holder: type) -> Mapping[str, Option]:
    """The options among the fields of a dataclass, by the field's name."""
    found, kinds = {}, get_type_hints(holder)
    for of_class in fields(holder):
        if "option" in of_class.metadata:
            known = of_class.metadata["option"]
            flag = known.flag or "--" + of_class.name.replace("_", "-")
            default = None if of_class.default is MISSING else of_class.default
            kind = kinds[of_class.name]
            choices = tuple(text for text in _choices(kind) if text not in known.untold)
            many = get_origin(kind) in (tuple, dict)
            found[of_class.name] = structs.replace(
                known, name=of_class.name, flag=flag, default=default, choices=choices, many=many
            )
    return found


def _choices(kind: Any) -> tuple[str, ...]:
    """The values of a Literal, which may stand beside None."""
    parts = get_args(kind)
    return parts if get_origin(kind) is Literal else tuple(text for part in parts for text in _choices(part))


def fitting(option: Option, value: Any) -> Any:
    """A value as the option takes it, where one may stand for a list of one, a text for a number and a number for a
    text; TypeError says what is wanted instead."""
    is_number = isinstance(value, SupportsIndex | float) and not isinstance(value, bool)
    if option.least is not None:
        return whole_number(value)
    if option.many:
        value = value if isinstance(value, Mapping) else several(value)
        fits, wanted = all(isinstance(text, str) for text in value), "a text or a list of texts"
    elif option.switch:
        fits, wanted = isinstance(value, bool), "true or false"
    else:
        fits, wanted = is_number or isinstance(value, str | Path), "a text"
        value = str(value)
    if not fits:
        raise TypeError(wanted)
    return value


def taken(name: str, value: Any, fit: Callable[[Any], T]) -> T:
    """What `fit` makes of an argument. Its TypeError, which says what is wanted, names the argument here."""
    try:
        return fit(value)
    except TypeError as wanted:
        raise TypeError(f"{name}={value!r:.80}: {wanted} is expected. Nothing was changed.") from None


def several(value: Any) -> tuple[Any, ...]:
    """What was given as one or as several."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, Mapping | str | bytes) else (value,)


def whole_number(value: object) -> int:
    """A number, or that of a text such as "32k"."""
    with contextlib.suppress(ValueError):
        if isinstance(value, str):
            return parse_amount(value)
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return value.__index__()
    raise TypeError("a whole number")


UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_amount(text: str) -> int:
    """A number: "32000", "32_000", "32k", "1.5k", "32Ki"; k is a thousand, Ki 1024. ValueError if it is none."""
    match = re.fullmatch(r"\s*(-?[\d_]+(?:\.\d+)?)\s*([km]i?|)\s*", text, re.I | re.A)
    if match and (number := Fraction(match.group(1)) * UNITS[match.group(2).upper()]).denominator == 1:
        return int(number)
    raise ValueError(f"{text!r} is not a whole number")


def refuse_values(holder: type, given: Mapping[str, Any]) -> None:
    """Refuse values that options of this class do not have, or that no text can hold; those missing are not checked."""
    for name, known in options_of(holder).items():
        value = given.get(name)
        wanted = ""
        if value is not None and known.choices and value not in known.choices + known.untold:
            wanted = f"one of {', '.join(known.choices)}"
        elif value is not None and known.least is not None:
            above = known.most is not None and value > known.most
            wanted = f"at least {known.least}" if value < known.least else f"at most {known.most}" if above else ""
        if wanted:
            raise UsageError(f"{known.flag} {value}: {wanted}. Nothing was changed.")
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str | Path):
                refuse_no_text(known.flag, str(text))


def refuse_no_text(name: str, text: str) -> None:
    """Refuse halves of surrogate pairs, which no text can hold: bytes of an argument that are no UTF-8 become those."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"{name} {text!a}: this is not UTF-8.")
