"""Classes of characters as the installed `regex` has them, and which Unicode version that is."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import regex

# The general categories of Unicode.
CATEGORIES = tuple(
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()  # noqa: SIM905
)


@functools.cache
def every_character() -> str:
    """All code points but surrogates, in order; 4.4 MB, kept."""
    points = np.arange(0x110000, dtype="<u4")
    return np.delete(points, slice(0xD800, 0xE000)).tobytes().decode("utf-32-le")


@functools.cache
def code_point_class(members: str) -> npt.NDArray[np.bool_]:
    """Membership of all 1 114 112 code points in a class of the `regex` module; 30 ms, 1.1 MB, kept."""
    table = np.zeros(0x110000, np.bool_)
    for run in regex.finditer(members + "+", every_character()):
        first, last = ord(run.group()[0]), ord(run.group()[-1])
        table[first : last + 1] = True
    table[0xD800:0xE000] = False
    return table


# For each Unicode version, newest first, a code point that it was the first to assign.
FIRST_ASSIGNED = {"18.0.0": 0x3D000, "17.0.0": 0x11DB0, "16.0.0": 0x10D40, "15.1.0": 0x2FFC, "15.0.0": 0x11F00}
_UNASSIGNED = 801_723  # code points that the newest of these leaves unassigned; a later version leaves fewer
WRITTEN_WITH = "2026.11.19"  # the version of `regex` that has the newest of these


@functools.cache
def unicode_version() -> str:
    """The Unicode version that splits follow: that of the `regex` module, found by asking it."""
    for version, point in FIRST_ASSIGNED.items():
        if not regex.match(r"\p{Cn}", chr(point)):
            newest = version == next(iter(FIRST_ASSIGNED)) and regex.__version__ != WRITTEN_WITH
            # whole runs: one by one they take 50 times longer, in every command
            if newest and sum(map(len, regex.findall(r"\p{Cn}+", every_character()))) < _UNASSIGNED:
                return f"later than {version}"
            return version
    return "14.0.0 or older"
