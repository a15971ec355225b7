"""How text is split into chunks: what a pattern is, and the presets.

A pattern is run with find-all by the `regex` module, and that is the definition of a split (tests/oracles/splits.py has
all of it); a preset also says where a split is certain without matching (CERTAIN_BORDER).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import regex

from streambpe.errors import PatternError, meant, quoted
from streambpe.resources import DOCUMENT_SECONDS
from streambpe.text.aliases import ALIASES, canonical
from streambpe.text.characters import CATEGORIES, code_point_class, unicode_version
from streambpe.text.expressions import compiled
from streambpe.text.script_blocks import UNICODE
from streambpe.text.split import explained, find_chunks
from streambpe.text.whitespace import WORD_MARK

if TYPE_CHECKING:
    from streambpe.text.program import Program

WITH_DIGITS = " --digits "  # in the name of a preset that cuts numbers in another way
Digits = Literal["keep", "single", "two", "left3", "right3"]
_GPT4O_WORDS = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+{suffix}"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*{suffix}"
)
_GPT4O_REST = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
_TRAILING = r"|\s+(?!\S)|\s+"
_GPT4O_FULL = _GPT4O_WORDS.replace("{suffix}", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?") + _GPT4O_REST
_SUPERBPE1_FULL = _GPT4O_WORDS.replace("{suffix}", "") + _GPT4O_REST
_GPT4_HEAD = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
_GPT2_HEAD = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+"
_COMMON = (
    r"|[0-9#*]\uFE0F?\u20E3"
    r"|[\U0001F1E6-\U0001F1FF]{2}"
    r"|\p{Extended_Pictographic}[\U0001F3FB-\U0001F3FF]?[\uFE0F\uFE0E]?"
    r"(?:\u200d\p{Extended_Pictographic}[\U0001F3FB-\U0001F3FF]?[\uFE0F\uFE0E]?)*"
    r"| ?(?:[\p{S}\p{P}]\p{M}*){1,16}"
    r"|[^\S\r\n]{0,16}[\r\n]{1,16}"
    r"|[^\S\r\n]{1,16}(?![^\s\p{N}\p{C}\p{M}])"
    r"|\s{1,16}"
    r"|\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))"
    r"|[\p{Z}\p{C}\p{M}]+"
)
_ULTIMATE = (
    r" ?(?:\p{L}\p{M}*)+['’](?:\p{L}\p{M}*)+"
    r"|_(?:\p{Ll}\p{M}*)+"
    r"| ?(?:\p{Lu}\p{M}*)+(?=(?:\p{Lu}\p{M}*)(?:\p{Ll}\p{M}*))"
    r"| ?(?:\p{Lu}\p{M}*)?(?:\p{Ll}\p{M}*)+"
    r"| ?(?:\p{Lu}\p{M}*)+"
    r"| ?(?:[\p{Lt}\p{Lm}\p{Lo}]\p{M}*)+"
    r"|(?:\p{N}\p{M}*){1,3}(?=(?:(?:\p{N}\p{M}*){3})*(?:(?:\P{N}\p{M}*)|$))"
    r"|{space}(?:[\p{P}\p{S}]\p{M}*)+"
    r"|[^\S\r\n]*[\n\r]+|[^\S\r\n]+"
    r"|(?:[\p{Z}\p{C}]\p{M}*)+"
    r"|\p{M}+"
    r"|.+"
)
# Of other programs' models, in words of `regex`: moonshotai/Kimi-K2-Instruct (tokenization_kimi.py) writes && for the
# look-aheads, and deepseek-ai/DeepSeek-V3 (tokenizer.json) has three expressions, here in one (text/in_turn.py).
_KIMI_K2 = (
    r"\p{Han}+"
    r"|[^\p{L}\p{N}\n\r]?(?:(?=[\p{Lm}\p{Lo}\p{Lt}\p{Lu}\p{M}])[^\p{Han}])*(?:(?=[\p{Ll}\p{Lm}\p{Lo}\p{M}])[^\p{Han}])+"
    r"(?:'[sſS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
    r"|[^\p{L}\p{N}\n\r]?(?:(?=[\p{Lm}\p{Lo}\p{Lt}\p{Lu}\p{M}])[^\p{Han}])+(?:(?=[\p{Ll}\p{Lm}\p{Lo}\p{M}])[^\p{Han}])*"
    r"(?:'[sſS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
    r"|\p{N}{1,3}| ?[^\p{L}\p{N}\s]+[\n\r]*|\s*[\n\r]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}"
    r"|(?:(?=[\u3040-ゟ゠-ヿ一-龥])[^\p{L}\p{P}\p{S}\n\r])?(?:(?=[\u3040-ゟ゠-ヿ一-龥])[\p{L}\p{M}])+"
    r"|(?:(?=[\u3040-ゟ゠-ヿ一-龥])[\p{P}\p{S}])+"
    r"|(?:(?!(?:(?=[\u3040-ゟ゠-ヿ一-龥])[^\p{L}\p{P}\p{S}\n\r])?(?:(?=[\u3040-ゟ゠-ヿ一-龥])[\p{L}\p{M}])+"
    r"|(?:(?=[\u3040-ゟ゠-ヿ一-龥])[\p{P}\p{S}])+)[\u3040-ゟ゠-ヿ一-龥])+"
    r"""|[\{\|\}\~!"\#\$%\&'\(\)\*\+,\-\./:;<=>\?@\[\\\]\^_`][A-Za-z]+"""
    r"|(?:(?=[^\p{N}])(?:(?=[^\u3040-ゟ゠-ヿ一-龥])[^\p{L}\p{P}\p{S}\n\r]))?(?:(?=[^\u3040-ゟ゠-ヿ一-龥])[\p{L}\p{M}])+"
    r"| ?(?:(?=[^\u3040-ゟ゠-ヿ一-龥])[\p{P}\p{S}])+[\n\r]*"
    r"|\s*[\n\r]+|\s+(?!(?:(?=[^\p{N}])(?:(?=[^\u3040-ゟ゠-ヿ一-龥])\S)))|\s+"
)
# The branch for numbers of each preset, in which --digits replaces it: (as it is, one digit, what --digits calls it).
_MARKED = r"(?:\p{N}\p{M}*)"
_NUMBERS = (
    (rf"{_MARKED}{{1,3}}(?=(?:{_MARKED}{{3}})*(?:(?:\P{{N}}\p{{M}}*)|$))", _MARKED, "right3"),
    (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))", r"\p{N}", "right3"),
    (r"\p{N}{1,3}+", r"\p{N}", "left3"),
    (r"\p{N}{1,3}", r"\p{N}", "left3"),
    (r"\p{N}++", r"\p{N}", "keep"),
    (r"\p{N}+", r"\p{N}", "keep"),
)
_TIMES = {"single": "", "two": "{1,2}", "left3": "{1,3}", "right3": r"{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))"}
# Two characters between which every preset but those below has a border, whatever stands around: a letter or a number,
# and white space or punctuation. Where a letter and punctuation share a chunk, either the punctuation is in front, or
# it is an apostrophe. The punctuation is older than any character table, and the two letters left out are marks to
# `script`. What is no part of a word is looked for first (\W), which is quick.
_PUNCTUATION = r"!-&(-/:-@\[-\^`{-~\u3001-\u3003\u3008-\u3011\uFF01-\uFF06\uFF08-\uFF0F\uFF1A-\uFF20"
CERTAIN_BORDER = rf"[\p{{L}}\p{{N}}](?<![\u30FC\uFF70])(?=[\s{_PUNCTUATION}])\W"
_BORDER_OF_WORDS = r"[\p{L}\p{N}]\s"  # under `whitespace`, punctuation is part of a word
_BORDER_OF_NUMBERS = rf"\p{{N}}[A-Za-z\s{_PUNCTUATION}]"  # under `superbpe2`, letters and spaces share a chunk
_BORDER_IN_A_SCRIPT = r"[A-Za-z] (?=[A-Za-z])"  # where scripts are split, both sides have to be one script


@dataclass(frozen=True)
class Pattern:
    """One way to split text. `name` is a preset's name, or "regex" for a user's own expression."""

    name: str
    expression: str  # what `regex` runs; "" stands for "the whole document is one chunk"
    border: str | None = CERTAIN_BORDER  # the two characters beside one that is certain; None: none is known here
    keep_gaps: bool = False  # text between two matches is a chunk too
    script_expression: str | None = None  # for runs of scripts written without spaces, if runs are split first
    by_rules: bool = False  # the core has rules for it instead of an expression, which is then its name
    prepared: bool = False  # the text is normalised or thinned before it is split (text/prepare.py)
    document_seconds: float = field(default=DOCUMENT_SECONDS, compare=False)  # that `expression` may take, if "regex"
    digits: Digits = "keep"  # how many digits a chunk may hold; "keep": what the preset has
    word_mark: str = ""  # stands before every chunk; pieces of white space are no chunks

    @functools.cached_property  # not when it is made: most presets are never run, and each takes some milliseconds
    def compiled(self) -> regex.Pattern[str]:
        """What `regex` runs; an empty expression matches nothing."""
        return regex.compile(self.expression or "(?!)")

    @functools.cached_property
    def script_compiled(self) -> regex.Pattern[str] | None:
        return regex.compile(self.script_expression) if self.script_expression else None

    @functools.cached_property
    def program(self) -> Program | None:
        """How the core runs an expression of the user's own; None if it cannot."""
        if self.border is not None or not self.expression or self.script_expression:
            return None
        from streambpe.text.program import program_of  # not above: presets do not need to know what expressions mean

        return program_of(self.expression)

    @functools.cached_property
    def cuts(self) -> Program | None:
        """What knows where an expression of the user's own surely cuts a text, if anything does."""
        own = self.program
        return own if own is not None and not self.prepared and own.has_cuts(self.keep_gaps) else None

    @property
    def has_cuts(self) -> bool:
        """Whether a document can be read in pieces: not under `none`, nor by an expression of which no cut is known."""
        return self.border is not None or self.cuts is not None

    @property
    def unicode(self) -> str:
        """The Unicode version that its splits follow."""
        return UNICODE if self.name == "script" else unicode_version()


_SCRIPT_WORD = r" ?\p{L}\p{M}*"
SCRIPT_SPECIFIC = _SCRIPT_WORD + _COMMON
SCRIPT_SPECIFIC_GPT4O = _SCRIPT_WORD + _GPT4O_REST + _TRAILING
PRESETS: dict[str, Pattern] = {
    pattern.name: pattern
    for pattern in (
        Pattern("gpt4o", _GPT4O_FULL + _TRAILING),
        Pattern("gpt2", _GPT2_HEAD + _TRAILING),
        Pattern(
            "r50k",
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        ),
        Pattern("gpt4", _GPT4_HEAD + _TRAILING),
        Pattern(
            "cl100k",
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
            r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        ),
        Pattern(
            "punct",
            r" ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]" + _TRAILING,
        ),
        Pattern("boundless", _ULTIMATE.replace("{space}", " ?")),
        Pattern("ultimate1", _ULTIMATE.replace("{space}", "")),
        Pattern(
            "word-level",
            r" ?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}\u200d]*[\p{Ll}\p{Lm}\p{Lo}\p{M}\u200d]+"
            r"(?:['\u2019][\p{Ll}\p{Lm}\p{Lo}\p{M}]+)?"
            r"| ?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}\u200d]+[\p{Ll}\p{Lm}\p{Lo}\p{M}\u200d]*"
            r"(?:['\u2019][\p{Ll}\p{Lm}\p{Lo}\p{M}]+)?" + _COMMON,
        ),
        Pattern("superbpe1", _SUPERBPE1_FULL + _TRAILING),
        Pattern(
            "superbpe2",
            r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)",
            _BORDER_OF_NUMBERS,
            keep_gaps=True,
        ),
        Pattern("script", "script", by_rules=True),
        Pattern("whitespace", "whitespace", _BORDER_OF_WORDS, by_rules=True, word_mark=WORD_MARK),
        Pattern("kimi-k2", _KIMI_K2, None),
        Pattern("deepseek-v3", _DEEPSEEK_V3, None, keep_gaps=True),
        Pattern("none", "", None),
    )
}


def find_pattern(
    name_or_regex: str,
    *,
    gaps: str = "refuse",
    split_scripts: bool = False,
    digits: Digits = "keep",
    prepared: bool = False,
    document_seconds: float = DOCUMENT_SECONDS,
) -> Pattern:
    """The pattern behind --pattern: a preset by name, else a regular expression of the user's own, which may take
    `document_seconds` of processor time on one document."""
    name_or_regex = canonical(name_or_regex)
    pattern = PRESETS[name_or_regex] if name_or_regex in PRESETS else _own_pattern(name_or_regex, gaps)
    special = SCRIPT_SPECIFIC_GPT4O if "/]*" in pattern.expression else SCRIPT_SPECIFIC
    if digits != "keep":
        pattern, special = _with_digits(pattern, digits), _replace_numbers(special, digits)
    if split_scripts:
        if not pattern.expression or pattern.by_rules:
            raise PatternError(
                f"--split-scripts needs a regular expression to run on each script; --pattern {pattern.name} has none."
            )
        border = _BORDER_IN_A_SCRIPT if pattern.border == CERTAIN_BORDER else None
        pattern = replace(pattern, script_expression=special, border=border)
    if pattern.name == "regex":
        pattern = replace(pattern, document_seconds=document_seconds)
    return replace(pattern, prepared=True) if prepared else pattern


def _replace_numbers(expression: str, digits: Digits) -> str:
    """The expression with numbers cut as --digits says; unchanged if it cuts them so by itself."""
    numbers, digit, own = next(known for known in _NUMBERS if known[0] in expression)
    return expression if digits == own else expression.replace(numbers, digit + _TIMES[digits])


def _with_digits(pattern: Pattern, digits: Digits) -> Pattern:
    """The preset with numbers cut another way. Its name differs, since programs that know the preset do not know it."""
    if pattern.name == "regex":
        raise PatternError(
            f"--digits {digits} changes a preset, and {quoted(pattern.expression)} is an expression of your own. Give "
            r"a preset; or leave --digits out, and say in the expression how many \p{N} a chunk may hold."
        )
    if pattern.by_rules or not pattern.expression:
        raise PatternError(f"--digits {digits} needs a preset that has a rule for numbers; {pattern.name} has none.")
    expression = _replace_numbers(pattern.expression, digits)
    name = pattern.name if expression == pattern.expression else f"{pattern.name}{WITH_DIGITS}{digits}"
    return replace(pattern, name=name, expression=expression, digits=digits)


def _own_pattern(expression: str, gaps: str) -> Pattern:
    if regex.fullmatch(r"[A-Za-z][\w-]*", expression):
        raise PatternError(
            f"There is no pattern named {quoted(expression)}.{meant(expression.lower(), [*PRESETS, *ALIASES])} Known: "
            f"{', '.join(PRESETS)}; or give a regular expression."
        )
    own = compiled(expression, f"The pattern {quoted(expression)}")
    if gaps == "refuse":
        missed = _unmatched_example(own)
        if missed is not None:
            raise PatternError(
                f"The pattern {quoted(expression)} leaves part of the text {quoted(missed)} unmatched, so that part "
                f"would be lost. Add a last alternative such as `|.` with (?s), or keep such text as chunks with "
                f"--gaps keep."
            )
    return Pattern("regex", expression, None, keep_gaps=gaps == "keep")


def _unmatched_example(compiled: regex.Pattern[str]) -> str | None:
    """A short text that the pattern does not cover, tried for all general categories, or None."""
    samples = ["\n", "\r\n", "\x00", " "]
    for category in CATEGORIES:
        members = np.flatnonzero(code_point_class(rf"\p{{{category}}}"))
        if not len(members):  # surrogates are in no text
            continue
        samples += [chr(members[0]), chr(members[len(members) // 2]), chr(members[-1])]
    texts = [*samples, *(s * 3 for s in samples), *("a" + s + "b" for s in samples), *(" " + s for s in samples)]
    texts += [s + t for s in samples[::3] for t in samples[::3]]
    for text in texts:
        with explained(compiled, text):
            if "".join(find_chunks(compiled, text, False)) != text:
                return text
    return None
