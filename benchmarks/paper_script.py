"""SCRIPT-BPE: tables 2 and 3 from what script.py measured, tables 4 and 5 by language.

The languages are lines of a text in many of them, told apart by their letters and by a few words (LANGUAGES). That is
no exact way: it leaves lines out, and lets some of a close relative in.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from operator import truediv
from pathlib import Path
from typing import NamedTuple

import regex
import script
from corpora import prepare
from measured import RESULTS, read
from paper_texts import Curve, Row, Table, Texts, measured, trained
from peers import read_documents

MOST = 5_000_000  # bytes of a language
MANY_MERGES, SINGLE_MERGES = 32_000, 8_000
RESULT = "script-multi_60-32000"
COLUMNS = {  # of tables 4 and 5
    "bytes, cl100k": ("bytes", "gpt4"), "bytes, o200k": ("bytes", "gpt4o"),
    "SCRIPT, rules": ("script", "script"), "SCRIPT, o200k": ("script", "gpt4o"),
}  # fmt: skip


class Language(NamedTuple):
    """How its lines are found, and what the paper has of it."""

    letters: str  # of which most letters are
    marks: str  # an expression that its lines have
    bytes: float  # UTF-8 bytes of a character
    many: tuple[float, ...]  # table 4
    single: tuple[float, ...]  # table 5
    never: str = r"(?!)"  # and one that they have not


_CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
_VIETNAMESE = "[ạảấầẩậắằẳặẹẻẽếềểệỉịọỏốồổộớờởợụủứừửữựỳỵỷỹ]"
LANGUAGES = {
    "Japanese": Language(
        _CJK, r"\p{Hiragana}", 2.74, (0.5249, 0.5268, 0.5393, 0.5267), (0.4196, 0.4197, 0.4422, 0.4194)
    ),
    "Chinese": Language(
        _CJK, r"\p{Han}", 2.69, (0.6244, 0.6260, 0.6537, 0.6259), (0.5136, 0.5137, 0.5587, 0.5134),
        r"[\p{Hiragana}\p{Katakana}]",
    ),
    "Thai": Language(
        r"[\p{Thai}\p{M}]", r"\p{Thai}", 2.68, (0.4257, 0.3160, 0.3362, 0.3159), (0.3216, 0.2048, 0.2364, 0.2047)
    ),
    "Punjabi": Language(
        r"[\p{Gurmukhi}\p{M}]", r"\p{Gurmukhi}", 2.54, (0.6053, 0.4982, 0.4962, 0.4979),
        (0.4961, 0.2394, 0.2398, 0.2394),
    ),
    "Hindi": Language(
        r"[\p{Devanagari}\p{M}]", r"\bहै|\bऔर\b|\bमें\b", 2.51, (0.5057, 0.3246, 0.3233, 0.3245),
        (0.4835, 0.2387, 0.2387, 0.2387),
    ),
    "Korean": Language(
        r"\p{Hangul}", r"\p{Hangul}", 2.33, (0.5808, 0.5827, 0.5817, 0.5824), (0.3945, 0.3945, 0.3973, 0.3942)
    ),
    "Russian": Language(
        r"\p{Cyrillic}", r"[ыэ]|\bи\b", 1.81, (0.2314, 0.2321, 0.2321, 0.2320), (0.2115, 0.2115, 0.2123, 0.2115),
        "[іїєґўјљњћђџқғңүұһөә]",
    ),
    "Arabic": Language(
        r"[\p{Arabic}\p{M}]", r"\p{Arabic}", 1.79, (0.2979, 0.2976, 0.2963, 0.2975), (0.2325, 0.2299, 0.2298, 0.2299),
        "[پچژگکیےڑٹںھۆێە]",
    ),
    "Hebrew": Language(
        r"[\p{Hebrew}\p{M}]", r"\p{Hebrew}", 1.77, (0.4146, 0.4163, 0.4157, 0.4161), (0.2439, 0.2426, 0.2446, 0.2427)
    ),
    "Vietnamese": Language(
        r"\p{Latin}", f"{_VIETNAMESE}.*{_VIETNAMESE}", 1.32, (0.2688, 0.2692, 0.2687, 0.2692),
        (0.2552, 0.2553, 0.2553, 0.2553),
    ),
    "German": Language(
        r"\p{Latin}", r"\b(?:und|der|die|das|nicht)\b.*\b(?:und|der|die|das|ist|nicht|ich|zu|den)\b", 1.02,
        (0.2128, 0.2133, 0.2138, 0.2132), (0.2007, 0.2008, 0.2019, 0.2008), r"\b(?:de|og|het|een|er)\b",
    ),
    "English": Language(
        r"\p{Latin}", r"\b(?:the|and|of)\b.*\b(?:the|and|of|is|to|in)\b", 1.01, (0.2152, 0.2150, 0.2179, 0.2150),
        (0.2118, 0.2114, 0.2145, 0.2114),
    ),
}  # fmt: skip


def rows(texts: Texts) -> Iterator[Row]:
    """Tables 2 and 3."""
    path = RESULTS / f"{RESULT}.tsv"
    if not path.exists():
        sys.exit("script: run benchmarks/script.py --corpus multi_60.txt first.")
    told = {
        "bytes-gpt4": ("0.333", "1678"), "bytes-gpt4-whole": ("0.332", "209"),
        "bytes-gpt4o": ("0.282", "5193"), "bytes-gpt4o-whole": ("0.280", "183"),
        "script-script": ("0.293", "6048 or 8048"), "script-script-whole": ("0.289", "0"),
        "script-gpt4o": ("0.284", "8062"), "script-gpt4o-whole": ("0.2801", "0"),
    }  # fmt: skip
    found = {row.name: row for row in read(path).rows}
    most = float(found["bytes-gpt4"].facts["tokens"])
    for name, (tokens, partial) in told.items():
        paper, ours = f"{float(tokens) / 0.333:.3f}", f"{float(found[name].facts['tokens']) / most:.3f}"
        yield f"tokens to those of bytes with cl100k: {name}", paper, ours
        yield f"tokens that are parts of characters: {name}", partial, f"{int(found[name].facts['parts_learned']):,}"
    hours = {
        "bytes-gpt4": (5.2, 6.7),
        "bytes-gpt4o": (5.8, 8.0),
        "script-script": (4.4, 4.1),
        "script-gpt4o": (6.1, 4.5),
    }
    for name, (free, bound) in hours.items():
        cpu = (statistics.median(found[model].figures["cpu_s"]) for model in (f"{name}-whole", name))
        ours = f"{truediv(*cpu):.2f}"
        yield f"processor time of learning whole characters, to that without: {name}", f"{bound / free:.2f}", ours


def many(texts: Texts) -> Curve:
    """Table 4: one model of each kind for all languages."""
    if texts.languages is None:
        return Curve([], [])
    documents = Path(prepare(str(texts.languages), str(texts.work), "blocks", None)["path"])
    models = _models(texts, "many", documents, MANY_MERGES)
    told = "tokens per character (the paper's in brackets), 256 000 merges of 35 GB (table 4)"
    return _by_language(texts, lambda _: models, "many", told)


def single(texts: Texts) -> Curve:
    """Table 5: a model of each kind for each language, on the text that it learned from."""
    if texts.languages is None:
        return Curve([], [])
    told = "tokens per character (the paper's in brackets), 64 000 ids for each language of 300 MB (table 5)"
    learn = _languages(texts)
    models = {name: _models(texts, f"single-{name}", path, SINGLE_MERGES) for name, path in learn.items()}
    return _by_language(texts, models.__getitem__, "single", told)


def _models(texts: Texts, name: str, learn: Path, merges: int) -> dict[str, Path]:
    """A RUN for each of COLUMNS."""
    found = {}
    for column, (encoding, pattern) in COLUMNS.items():
        options = ("--encoding", encoding, "--pattern", pattern, "--whole-characters", "--vocab-size")
        size = str(script.BASE[encoding] + merges)
        found[column] = trained(texts, f"{name}-{encoding}-{pattern}", *options, size, learn=learn)
    return found


def _by_language(texts: Texts, models_of: Callable[[str], Mapping[str, Path]], which: str, told: str) -> Curve:
    cells = []
    for name, path in _languages(texts).items():
        held = texts._replace(held=path)
        sizes = [(len(text), len(text.encode())) for text in read_documents(str(path), "jsonl")]
        characters, size = (sum(of_each) for of_each in zip(*sizes, strict=True))
        paper: tuple[float, ...] = getattr(LANGUAGES[name], which)
        row = [name, f"{size / 1e6:.1f}", f"{size / characters:.2f} ({LANGUAGES[name].bytes})"]
        models = models_of(name)
        for column, theirs in zip(COLUMNS, paper, strict=True):
            tokens = measured(str(models[column]), held).values["tokens"]
            row.append(f"{tokens / characters:.4f} ({theirs:.4f})")
        cells.append(row)
    return Curve(["language", "MB here", "bytes per character", *COLUMNS], cells, told)


def _languages(texts: Texts) -> dict[str, Path]:
    """The text of each language that there is enough of."""
    assert texts.languages is not None
    folder = texts.work / "languages"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        unfinished.mkdir(exist_ok=True)
        for name, lines in _told_apart(texts.languages).items():
            text = unfinished / f"{name}.txt"
            text.write_text("".join(lines), encoding="utf-8")
            prepare(str(text), str(unfinished), "blocks", None)
        unfinished.rename(folder)
    found = {name: folder / f"{name}.blocks.jsonl" for name in LANGUAGES}
    return {name: path for name, path in found.items() if path.exists() and path.stat().st_size > 100_000}


def _told_apart(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in LANGUAGES}
    left = dict.fromkeys(LANGUAGES, MOST)
    letter = regex.compile(r"\p{L}")
    ways = {
        name: (regex.compile(way.marks), regex.compile(way.letters), regex.compile(way.never))
        for name, way in LANGUAGES.items()
    }
    with path.open(encoding="utf-8", errors="ignore") as lines:
        for line in lines:
            head = line[:300]
            for name, (marks, own, never) in ways.items():
                if left[name] <= 0 or not marks.search(head) or never.search(head):
                    continue
                if 2 * len(own.findall(head)) > len(letter.findall(head)):
                    found[name].append(line)
                    left[name] -= len(line.encode())
                    break
    return found


TABLE = Table(
    "The paper has a tokenizer of 64 000 ids for each of 12 languages of 300 MB, and one of 256 000 merges for 35 GB; "
    "here 8 000 merges for at most 5 MB, mostly bibles and message catalogues, and 32 000 for a hundred languages "
    "in 60 MB: fewer parts of characters are learned. Tokens of table 2 are told beside the first row, the paper's "
    "computed from its tokens per character.",
    rows,
    {"many": many, "single": single},
)
