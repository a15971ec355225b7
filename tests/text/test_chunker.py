"""The counting route: chunks split, counted and numbered by the compiled core, judged by find-all on whole texts."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unicodedata import category
from unicodedata import name as name_of

import pytest

from streambpe.core import binding
from streambpe.core.binding import ChunkTable
from streambpe.errors import CoreError
from streambpe.text.characters import every_character
from streambpe.text.chunker import Chunker, core_split
from streambpe.text.patterns import PRESETS, find_pattern
from tests.hostile import ATOMS, buffer_of, fast_documents, preset_patterns, random_text
from tests.oracles.splits import split_text

PATTERNS = preset_patterns()
NAMES = [name for name, _ in PATTERNS]
WITH_SCRIPTS = ("gpt2-scripts", "gpt4o-scripts", "boundless-scripts", "word-level-scripts")  # where all is too long
OWN = r"(?s)\b\w+| +|."  # a pattern of the user's own that is left to `regex`


LEFT_TO_REGEX = [("own", find_pattern(OWN)), ("own-scripts", find_pattern(OWN, split_scripts=True))]


@pytest.mark.parametrize(("name", "pattern"), [*PATTERNS, *LEFT_TO_REGEX], ids=[*NAMES, "own", "own-scripts"])
def test_fast_route_equals_find_all(name, pattern):
    """On pairs of atoms, bare and between letters, spaces and ends of documents; and on longer texts, whose few atoms
    meet in every order."""
    rng = random.Random(f"route {name}")
    frames = [("", ""), ("a", "b"), (" ", " "), ("\n", "\n"), ("A", "'s"), ("!", "!"), ("1", "2")]
    texts = ["", "\0", *(random_text(rng, rng.choice([5, 50, 300])) for _ in range(20))]
    for a in sorted(set(ATOMS)):
        for b in rng.sample(ATOMS, 8):
            before, after = rng.choice(frames)
            texts.append(before + a + b + after)
    for odd in ("\ua7ce", "\U00016ea0", "\u0378"):  # `$` matches at the end of a document only
        texts += [f"{odd}\n\x85の", f"a{odd} \n x", f"{odd}\n \t{odd}\n "]
    for text, chunks in zip(texts, fast_documents(buffer_of(*texts), pattern), strict=True):
        assert chunks == split_text(pattern, text), repr(text)
    assert name.endswith("-scripts") or Chunker(pattern).by_regex == (name == "own"), "left to the slow way"


CUT = {"single": "1 1|2 1|2|3|4|5|6|7", "two": "1 12 12|34|56|7", "left3": "1 12 123|456|7", "right3": "1 12 1|234|567"}


@pytest.mark.parametrize("digits", CUT)
@pytest.mark.parametrize("name", [name for name, p in PRESETS.items() if p.expression and not p.by_rules])
def test_numbers_are_cut_as_asked(name, digits):
    """In the core as find-all does by the expression that exports write, with and without runs of scripts."""
    rng = random.Random(f"{name} {digits}")
    atoms = [*"1\u0663\U0001d7d9\xb2 \u0301\ufe0f\u20e3a,\n\u6587", "22", "333", "4444", "123456789", "\r\n"]
    texts = ["".join(rng.choices(atoms, k=rng.randint(1, 25))) for _ in range(300)]
    texts += [random_text(rng, 100) for _ in range(5)]
    for split_scripts in (False, True):
        pattern = find_pattern(name, digits=digits, split_scripts=split_scripts)
        documents = [split_text(pattern, text) for text in texts]
        assert fast_documents(buffer_of(*texts), pattern) == documents
        assert documents != [split_text(find_pattern(name), text) for text in texts] or pattern.name == name
    numbers = [chunk.strip() for chunk in split_text(pattern, "x 1 12 1234567")][1:]
    assert [chunk for chunk in numbers if chunk] == CUT[digits].replace("|", " ").split()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "pattern"), [(n, p) for n, p in PATTERNS if n in WITH_SCRIPTS or not n.endswith("-scripts")]
)
def test_every_code_point(name, pattern):
    """Every character there is, between letters: the fast route equals find-all. Those without a meaning (unassigned,
    private), ideographs and syllables of Hangul, alike by the hundred thousand, stand together in longer texts."""
    alone, together = [], []
    for character in every_character():
        alike = category(character) in ("Cn", "Co") or name_of(character, "").startswith(("CJK UNI", "HANGUL SYL"))
        (together if alike else alone).append(f"a{character}b" if alike else f"a{character}b {character}'s")
    texts = alone + [" ".join(together[start : start + 100]) for start in range(0, len(together), 100)]
    for start in range(0, len(texts), 1 << 15):
        some = texts[start : start + (1 << 15)]
        assert fast_documents(buffer_of(*some), pattern) == [split_text(pattern, text) for text in some]


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
def test_letters_that_are_read_by_eight_bytes_end_where_they_should(name, pattern):
    """Every ASCII character, and some beyond, at every place of eight bytes, in words of both cases; and every cut."""
    odd = ["\u00e9", "\u0130", "\u017f", "\u0301", "\u0430", "\u2019s", "\u4e2d", "\U0001d4d0", "\U0001f600"]
    texts = [" abcxyzABCXYZ"[at % 4 :][:at] + odd + "zebrasRUN" for at in range(9) for odd in map(chr, range(128))]
    texts += ["a" * at + c + "Z" * more for at in range(7, 18) for c in [*odd, *"@[`{"] for more in (0, 1, 7, 8)]
    whole = "Thequickbrownfox jumps\u00e9ver thelazydog's BACKWARDSand on 12345678 \u0433\u0434\u0435 etceteras"
    texts += [whole[:stop] for stop in range(1, len(whole))]
    assert fast_documents(buffer_of(*texts), pattern) == [split_text(pattern, text) for text in texts]
    for stop in range(1, len(whole)):  # without a mark: the buffer ends with the text
        assert fast_documents(whole[:stop].encode(), pattern) == [split_text(pattern, whole[:stop])]


def repeating_words(seed: str, n: int, lengths: list[int]) -> list[str]:
    """Some are new, some came a moment before, some come often; an apostrophe and a digit need no space before them."""
    rng, words = random.Random(seed), [""]
    for _ in range(n):
        made = "".join(rng.choices("abcdefgh\u00e9", k=rng.choice(lengths)))
        words.append(rng.choice([made, made, made, "the", "'s", "7", words[-1], words[len(words) // 2]]))
    return [word for word in words if word]


def as_dict(table: ChunkTable) -> dict[str, int]:
    offsets, data, n = table.take()
    return {bytes(data[a:b]).decode(): n for (a, b), n in zip(itertools.pairwise(offsets), n.tolist(), strict=True)}


@pytest.mark.parametrize("name", ["gpt2", "boundless", "whitespace", "script"])
def test_a_table_grows_while_chunks_wait(name):
    """Whichever of the chunks that wait together makes it grow, and whether it came before among them or not."""
    pattern = find_pattern(name)
    text = " ".join(repeating_words(name, 2500, [1, 2, 4, 6, 7, 8, 9, 14, 15, 16, 40]))
    chunks, x = split_text(pattern, text), split_text(pattern, "x")
    for shift in range(64):
        known: dict[str, int] = {}
        documents = [*[x] * shift, [], chunks, *[[]] * shift, x]
        expected = [[*(known.setdefault(chunk, len(known)) for chunk in document), -1] for document in documents]
        table = ChunkTable(1 << 30)
        data = buffer_of(*["x"] * shift, "", text, *[""] * shift, "x")
        assert table.number(data, core_split(pattern)).tolist() == list(itertools.chain(*expected))
        assert as_dict(table) == known


@pytest.mark.parametrize("lengths", [[2, 4, 5], [15, 16, 30], [1, 2, 5, 13, 14, 15, 30], [2, 200_000]])
@pytest.mark.parametrize("name", ["gpt4o", "whitespace", "none"])
def test_a_table_is_full_while_chunks_wait(name, lengths):
    """It holds the chunks before the one that found no place, and none behind; counting goes on from there."""
    pattern = find_pattern(name)
    words = repeating_words(name, 8000 if max(lengths) < 99 else 20, lengths)
    texts = words if name == "none" else [" ".join(words)]
    chunks = [chunk for text in texts for chunk in split_text(pattern, text)]
    for shift in range(0, 64, 5):
        data, at, left, stops = buffer_of(*["x"] * shift, *texts), 0, split_text(pattern, "x") * shift + chunks, 0
        table = ChunkTable(1 << 17)
        while at < len(data):
            at, many = table.count(data, core_split(pattern), at)
            stops += at < len(data)
            if not many:  # one chunk is larger than the table
                table = ChunkTable(1 << 20)
            assert as_dict(table) == Counter(left[:many])
            del left[:many]
        assert not left
        assert stops, "a table that was never full shows nothing"


LONG_WORD = "aB" * 150_000
LONG_NUMBER = "1" * 600_000 + "\u0301" + "1" * 400_000


@pytest.mark.parametrize(
    ("name", "text", "least"),
    [
        *((name, LONG_WORD, 100_001) for name in ("boundless", "ultimate1", "gpt4o", "word-level", "spaceless")),
        *((name, LONG_NUMBER, 333_335) for name in ("boundless", "ultimate1")),
    ],
    ids=lambda value: str(value)[:9],
)
def test_one_long_word_or_number_takes_linear_time(name, text, least):
    """Where its letters end is looked up once, not once a chunk, which took minutes; and Ctrl-C waited for it."""
    split = core_split(PRESETS[name] if name in PRESETS else find_pattern("gpt4o", split_scripts=True))
    assert len(ChunkTable(1 << 30).number(text.encode(), split)) >= least


@pytest.fixture
def core(tmp_path, monkeypatch):
    """A copy of the compiled core, which is looked for there."""
    for file in binding.FOLDER.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    monkeypatch.setattr(binding, "FOLDER", tmp_path)
    binding.library.cache_clear()
    yield tmp_path / binding.LIBRARY
    binding.library.cache_clear()


def refusal(library: Path, data: bytes | None = None) -> str:
    """What is said of the core, with this library if it is given. The one that is loaded is mapped into this process,
    so another file takes its place."""
    if data is not None:
        library.rename(library.with_name("loaded"))
        library.write_bytes(data)
    binding.library.cache_clear()
    with pytest.raises(CoreError, match="Install streambpe again") as error:
        binding.library()
    return str(error.value)


def test_a_core_that_is_missing_damaged_or_of_other_sources_is_one_sentence(core):
    """A command says what is wrong with the compiled part and how to have it again."""
    whole, record = core.read_bytes(), core.with_name(f"{core.name}.sha256")
    core.with_name("count.c").write_text("int other;")
    assert "was not built from the sources beside it" in refusal(core)
    assert "cannot be loaded" in refusal(core, whole[:40])
    record.write_text(hashlib.sha256(whole).hexdigest())  # once, it was one digest
    assert "it was built by another version" in refusal(core, whole)
    core.unlink()
    assert "is missing" in refusal(core)


def tool(name: str) -> str:
    """A tool of packagers; from PyPI it is beside this Python."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return found or pytest.skip(f"{name} is not here")


CHANGES = {
    "strip": lambda library: subprocess.run([tool("strip"), library], check=True),
    "patchelf": lambda library: subprocess.run([tool("patchelf"), "--set-rpath", "$ORIGIN/" * 40, library], check=True),
    "signtool": lambda library: library.write_bytes(library.read_bytes() + b"signature"),
    "codesign": lambda library: subprocess.run([tool("codesign"), "--force", "--sign", "-", library], check=True),
}


PACKAGERS = ("strip", "patchelf strip", "strip patchelf", "signtool", "codesign")


@pytest.mark.parametrize(
    ("changes", "without"), [*((changes, "") for changes in PACKAGERS), ("strip", "*.sha256"), ("strip", "*.[ch]")]
)
def test_a_core_that_a_packager_changed_was_damaged(core, changes, without):
    """It is loaded, as it is without its record or the sources; with other code, or cut short, it is damaged."""
    if changes == "signtool" and sys.platform == "darwin":
        pytest.skip("macOS loads no library with bytes behind its signature")
    record = core.with_name(f"{core.name}.sha256").read_text(encoding="utf-8")
    for file in core.parent.glob(without) if without else ():
        file.unlink()
    before = core.read_bytes()
    for change in changes.split():
        CHANGES[change](core)
    changed = core.read_bytes()
    assert changed != before
    parts = [tuple(map(int, part.split("-"))) for part in record.splitlines()[2].split()[1:]]
    start, end = max(parts, key=lambda part: part[1] - part[0])  # the code is the largest
    places = changed.index(b"core_digest:t:v"), (start + end) // 2  # constants, and code
    assert binding.library().core_digest
    for damaged in (changed[:20_000], *(changed[:at] + bytes([changed[at] ^ 1]) + changed[at + 1 :] for at in places)):
        assert without == "*.sha256" or "it is damaged" in refusal(core, damaged)
