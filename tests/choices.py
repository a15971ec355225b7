"""What people choose between when they compare vocabularies, combined at random: counted and learned by the command
line, judged by the slow definition of each choice, one after the other.

    files      of any format, of groups of documents; --sample-files takes those that a hash of their names says
    chunks     of the beginning of each document (--document-cap), by find-all; by group
    counts     the sum of the groups, times their weights (--weight, --alpha) by fractions and a sort
    events     learned from these one at a time (oracles/words.py, must_haves.py); --extend: behind those of a model

What cannot be is refused, in one sentence that names one of the options that are in the way, and nothing else is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import mmh3
import regex

from streambpe.config import TrainConfig
from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.check import check
from streambpe.model.alphabet import UNKNOWN, Alphabet
from streambpe.model.codecs import codec_of
from streambpe.model.eventlog import EventLog, Op
from streambpe.model.replay import Model
from streambpe.model.script import FIRST_ESCAPE, INDEX_SYMBOLS
from streambpe.text.patterns import PRESETS, Pattern, find_pattern
from streambpe.text.shown import readable
from streambpe.train.counting import sizes
from tests import oracles
from tests.hostile import random_text
from tests.oracles.must_haves import train_must_haves
from tests.oracles.splits import split_text
from tests.oracles.symbols import symbols_of
from tests.runs import SMALL, cli, log_of, rows
from tests.samples import natural_text
from tests.sources.test_document_cap import beginning
from tests.sources.test_sources import FORMATS, expected_documents, write
from tests.train.counting.test_groups import nearest_millionth, weighted
from tests.train.test_trainer import base_alphabet

Counts = dict[str, int]
Options = dict[str, Any]

TRAININGS = 3  # of one count
OWN = (r"(?s)\w+|.", r" ?\p{L}+| ?[^\s\p{L}]+|\s+", r"(?s)a(?=b)|.{1,3}", r"(?s)\p{N}{1,2}| ?\p{L}+|.")
GROUPS = ("de", "en", "हि")
LONGEST = {"single": 1, "two": 2, "left3": 3, "right3": 3}  # number in a chunk, by --digits
ANEW = ("must", "batch", "tau", "delete_to", "weights", "alpha")  # --extend does not take these over from a model
MOST = 1 << 20  # ids
_NUMBERS = ("", "7", "42", "2024", "1234567", " 3.14159", "٣٤٥", "1,000,000")


class Refused(Exception):
    """It cannot be. Of these words the message has one."""

    def __init__(self, *words: str) -> None:
        super().__init__(*words)
        self.words = words

    def agrees(self, told: str) -> bool:
        """Whether a message says so."""
        return any(word in told for word in self.words)


# ---------------------------------------------------------------- what is chosen


def documents(rng: random.Random) -> list[str]:
    """A few, in many scripts, with numbers, some with a piece of hostile text."""
    made = []
    for _ in range(rng.randint(1, 4)):
        text, at, size = natural_text(rng.randrange(9), 4000), rng.randrange(1000), rng.choice((20, 200, 700))
        pieces = [text[at : at + size], rng.choice(_NUMBERS), random_text(rng, rng.choice((0, 0, 6)))]
        made.append(rng.choice((" ", "")).join(rng.sample(pieces, 3)).replace("\ufeff", ""))  # no text in front
    return made


def file_of(rng: random.Random, path: Path, texts: list[str], lines: bool) -> tuple[Path, str]:
    """(a file with these texts, its format, which ends its name): each text is a document, or each of its lines."""
    kind = rng.choice([kind for kind in FORMATS if kind != ("txt" if lines else "lines")])
    suffix = "" if kind == "parquet" else rng.choice(("", "", ".gz", ".zst"))
    name = f"{path.name}.{'txt' if kind == 'lines' else kind}{suffix}"
    return write(path.with_name(name), texts, kind), kind


def corpus(rng: random.Random, folder: Path, lines: bool) -> dict[str, list[str]]:
    """Documents by GROUP/FILE, written below the folder."""
    found = {}
    for group in GROUPS[: rng.choice((1, 2, 2, 3))]:
        (folder / group).mkdir(parents=True)
        for i in range(rng.randint(1, 3)):
            texts = documents(rng)
            path, kind = file_of(rng, folder / group / f"{i}", texts, lines)
            found[f"{group}/{path.name}"] = expected_documents(texts, kind)
    return found


def choose_counting(rng: random.Random) -> Options:
    """Options of counting; a few of them cannot go together."""
    made: Options = {"lines": True} if rng.random() < 0.3 else {}
    pattern = rng.choice((*PRESETS, *PRESETS, *OWN))
    can_cut = pattern not in OWN and PRESETS[pattern].border is not None
    made["pattern"] = pattern
    if rng.random() < (0.5 if can_cut else 0.02):
        made["digits"] = rng.choice(list(LONGEST))
    if rng.random() < (0.3 if can_cut or pattern in OWN else 0.02):
        made["split_scripts"] = True
    if rng.random() < (0.4 if can_cut else 0.02):
        made["document_cap"] = rng.choice((7, 40, 40, 300))
    if rng.random() < 0.3:
        made |= {"sample_files": rng.choice(("1/2", "1/2", "1/3")), "seed": rng.randrange(1, 9)}
    if rng.random() < 0.8:
        made["group_by"] = "folder"
    return made


def choose_learning(
    rng: random.Random, counts: Counts, groups: Sequence[str], before: Mapping[str, Options]
) -> Options:
    """Options of a training as they are given; a few of them cannot go together. `before`: trainings to extend, and
    their options."""
    made: Options = {"ties": rng.choice(("ids", "bytes")), "overlaps": rng.choice(("all", "disjoint"))}
    stay = [name for name, options in before.items() if "tau" not in options or rng.random() < 0.05]
    extend = stay and rng.random() < 0.4
    if extend:
        made["extend"] = rng.choice(stay)
        made |= {"reserve": 7} if rng.random() < 0.02 else {}
    else:
        alphabet = rng.choice(("gpt2", "gpt2", "bytes", "bytes1", "utf8", "seen", "script", "chars"))
        made["encoding" if alphabet in ("script", "chars") else "alphabet"] = alphabet
        made |= {"stop_list": rng.choice((0, 0, 1, 3)), "reserve": rng.choice((0, 0, 5))}
        made["specials"] = rng.choice(((), (), ("<s>", "</s>"), ("the",)))
    chars = "chars" in (made.get("encoding"), before.get(made.get("extend", ""), {}).get("encoding"))
    made["whole_characters"] = rng.random() < (0.02 if chars else 0.4)
    made |= {"freq_cutoff": rng.choice((0, 1, 1, 2)), "min_frequency": rng.choice((0, 1, 1, 2, 4))}
    made["max_token_length"] = rng.choice((None, None, 3, 12))
    made["block_tokens"] = rng.choice(((), (), ("th", "12"), (" a", "é", "ng")))
    if groups and rng.random() < (0.4 if len(groups) > 1 else 0.04):
        made["alpha"] = rng.choice(("0", "0.3", "0.75", "1"))
    if rng.random() < (0.02 if "alpha" in made or not groups else 0.3):
        names = groups if rng.random() < 0.95 else GROUPS
        made["weights"] = {name: rng.choice(("0", "0.3", "1", "2.5", "7")) for name in names if rng.random() < 0.6}
    tau = rng.random() < (0.02 if extend else 0.2)
    if tau:
        made |= {"tau": rng.choice(("0.9", "0.6", "0.34")), "delete_to": rng.choice(("bytes", "walk"))}
    if rng.random() < 0.1:
        made["batch"] = "1"
    made["more"] = rng.choice((0, 5, 20, 60))  # ids beside those that there are; vocab_size is made of it
    if rng.random() < (0.02 if tau else 0.5):
        chunks = list(counts)
        made["must"] = tuple(dict.fromkeys(must_have(rng, chunks) for _ in range(rng.choice((1, 1, 2, 3)))))
        made["more"] = rng.choice((5, 40, 60, 60))
    elif extend and rng.random() < 0.9:
        made["more"] = rng.choice((5, 20, 60))
    return made


def must_have(rng: random.Random, chunks: Sequence[str]) -> str:
    """A chunk of the text, mostly; one like it, a word, or anything."""
    chunk, what = rng.choice(chunks), rng.random()
    if what < 0.8:
        return chunk
    return (
        chunk + rng.choice("abé日7") if what < 0.9 else rng.choice((" zebra", "é", "hypertension", random_text(rng, 2)))
    )


# ---------------------------------------------------------------- the slow way


def count_slowly(files: Mapping[str, Sequence[str]], options: Options) -> dict[str, Counts]:
    """Chunks by group."""
    name, cap = options["pattern"], options.get("document_cap")
    preset, why = PRESETS.get(name), []
    whole = preset is not None and (preset.by_rules or not preset.expression)
    if "digits" in options and (whole or preset is None):
        why.append("--digits")
    if "split_scripts" in options and whole:
        why.append("--split-scripts")
    if cap and (preset is None or preset.border is None or ("split_scripts" in options and name == "superbpe2")):
        why.append("--document-cap")
    if "sample_files" not in options:
        why += [] if "lines" not in options or any(".txt" in path for path in files) else ["--lines"]
    else:
        share, seed = 2**64 / int(options["sample_files"][2:]), options["seed"]
        files = {path: files[path] for path in files if mmh3.hash64(path.encode(), seed, signed=False)[0] < share}
        why += [] if files else ["--sample-files"]
    if why:
        raise Refused(*why)
    pattern, found = pattern_of(options), dict[str, Counter[str]]()
    for path, texts in files.items():
        group = path.partition("/")[0] if "group_by" in options else ""
        for text in texts:
            text = text if cap is None else beginning(pattern, text, cap)
            found.setdefault(group, Counter()).update(split_text(pattern, text))
    if not any(found.values()):
        raise Refused("no text")
    numbers = [number for chunk in set().union(*found.values()) for number in regex.findall(r"\p{N}+", chunk)]
    assert max(map(len, numbers), default=0) <= LONGEST.get(options.get("digits", ""), MOST), options
    return {group: dict(table) for group, table in found.items()}


def pattern_of(options: Options) -> Pattern:
    """What text is split by."""
    digits, split_scripts = options.get("digits", "keep"), "split_scripts" in options
    return find_pattern(options["pattern"], digits=digits, split_scripts=split_scripts)


def weigh_slowly(groups: Mapping[str, Counts], options: Options) -> Counts:
    """The counts that are learned from."""
    alpha, weights = options.get("alpha"), options.get("weights", {})
    why = [f"--weight {name}" for name in weights if name not in groups]
    if alpha is not None and (weights or len(groups) < 2):
        why.append("--alpha")
    if why:
        raise Refused(*why)
    numbers = {name: Fraction(number) for name, number in weights.items()}
    if alpha is not None:
        total = {name: sum(len(chunk) * n for chunk, n in table.items()) for name, table in groups.items()}
        large = max(total.values())
        numbers = {name: nearest_millionth(large, size, Fraction(alpha)) for name, size in total.items() if size}
    found = weighted(dict(groups), numbers)
    if not found:
        raise Refused("nothing is left")
    return found


def why_not_together(given: Options, effective: Options, base: EventLog | None) -> list[str]:
    """Which options exclude each other, and why a model cannot be extended so."""
    why = ["--tau"] if "tau" in effective and ("must" in effective or base is not None) else []
    if effective.get("encoding") == "chars" and effective["whole_characters"]:
        why.append("--whole-characters")
    if base is not None and any(event.op is Op.DELETE for event in base.events):
        why.append("deletions")
    if base is not None and given.get("reserve", base.header.reserved) != base.header.reserved:
        why.append("fixed by the model")
    return why


def learn_slowly(
    counts: Counts, config: TrainConfig, more: int, pattern: Pattern, base: EventLog | None
) -> tuple[int, oracles.Training | None]:
    """(--vocab-size, what is learned; None if a must-have cannot be)."""
    chunks = {chunk.encode(): n for chunk, n in counts.items()}
    kept = oracles.cut_off(chunks, config.freq_cutoff)
    if base is None:
        stop_words = oracles.choose_stop_words(chunks, config.stop_list)
        alphabet = base_alphabet(config, kept, stop_words)
        size = len(alphabet) + len(stop_words) + config.extra_ids + more
    else:
        stop_words = [word.content for word in base.header.stop_words]
        alphabet = Alphabet.from_header(base.header.alphabet)
        size = Model(base).n_vocab + more
        words = kept.keys() - set(stop_words)
        if alphabet.kind == "seen" and any(UNKNOWN in symbols_of(alphabet, chunk) for chunk in words):
            raise Refused("is not in the 'seen' alphabet")
    may_merge = oracles.whole_characters_bytes
    if config.encoding == "script":
        may_merge = oracles.whole_characters_script(INDEX_SYMBOLS, FIRST_ESCAPE)
    deletions = None if config.tau is None else oracles.Deletions.at(config.tau, config.delete_to)
    rule: dict[str, Any] = {
        "ties": config.ties, "overlaps": config.overlaps, "min_frequency": config.min_frequency,
        "max_token_length": config.max_token_length, "may_merge": may_merge if config.whole_characters else None,
        "blocked": [codec_of(alphabet, "error").content(token) for token in config.block_tokens],
        "stop_words": stop_words, "other_ids": config.extra_ids, "inherited": base.events if base else (),
    }  # fmt: skip
    if not config.must:
        return size, oracles.train_words(kept, alphabet, size, deletions=deletions, **rule)
    try:
        must = [must_chunk(text, config, pattern, alphabet) for text in config.must]
        return size, train_must_haves(kept, alphabet, size, must, **rule)
    except ValueError:
        return size, None


def must_chunk(text: str, config: TrainConfig, pattern: Pattern, alphabet: Alphabet) -> bytes:
    """The chunk of a must-have; ValueError if it cannot be one."""
    chunks = split_text(pattern, text)
    if len(chunks) != 1 or (chunks[0] != text and not pattern.word_mark):
        raise ValueError("several")
    symbols = symbols_of(alphabet, chunks[0].encode())
    too_long = len(symbols) > (config.max_token_length or len(symbols))
    if text in config.specials or any(one in text for one in config.block_tokens) or UNKNOWN in symbols or too_long:
        raise ValueError("never a token")
    return chunks[0].encode()


# ---------------------------------------------------------------- the command line


def typed(options: Options) -> list[str]:
    """Options as they are typed."""
    names = {"specials": "special", "block_tokens": "block-token", "weights": "weight"}
    words = []
    for name, value in options.items():
        flag = "--" + names.get(name, name).replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif name == "weights":
            words += [f"{flag}={group}={number}" for group, number in value.items()]
        elif isinstance(value, tuple):
            words += [f"{flag}={readable(text) if name == 'must' else text}" for text in value]
        elif value is not None:
            words.append(f"{flag}={value}")
    return words


def refusal(*command: Any, **more: Any) -> str:
    """Run a command; the one sentence in which it refused, or nothing. `check` may print differences instead."""
    done = cli(*command, expect=None, **more)
    told = [line for line in done.stderr.splitlines() if not line.startswith(("warning: ", "--pattern "))]
    if done.returncode == 0:
        return ""
    assert done.returncode in (1, 2, 3), (command, done)
    assert "no more memory" not in done.stderr, (command, done)  # it asked for too much
    assert [line for line in told if line.startswith("streambpe: ")] == told, (command, done)
    assert len(told) == 1 or done.stdout, (command, done)
    return "".join(told or done.stdout)


def count_in_pieces(rng: random.Random, *words: Any) -> str:
    """Count with text cut in pieces at random; how it refused, or nothing."""
    block = 1 << (rng.randint(5, 12) if rng.random() < 0.6 else 23)
    with mock.patch.multiple(sizes, MOST_BLOCK=block, LEAST_BLOCK=min(block, sizes.LEAST_BLOCK)):
        return refusal("count", *words, "--threads", rng.randint(1, 3))


def choices(seed: int, folder: Path) -> str:
    """One count with options at random, and some trainings; "refused" if counting is."""
    rng = random.Random(f"choices {seed}")
    run, options = folder / "run", choose_counting(rng)
    files = corpus(rng, folder / "in", "lines" in options)
    memory = ("--memory", rng.choice(("300MB", "1GB")))
    told = count_in_pieces(rng, run, folder / "in", *typed(options), *memory)
    try:
        groups, why = count_slowly(files, options), None
    except Refused as refused:
        groups, why = {}, refused
    assert why.agrees(told) if why else not told, (why, told, options)
    if why:
        return "refused"
    together = sum(map(Counter, groups.values()), Counter[str]())
    assert dict(rows(run, "FROM chunk_counts")) == dict(together), options
    before: dict[str, Options] = {}
    for name in map("t{}".format, range(TRAININGS)):
        given = choose_learning(rng, together, [name for name in groups if name], before)
        limits = (*memory, "--threads", rng.randint(1, 3), "--learner", rng.choice(("core", "core", "tables")))
        if learned := learned_alike(run, name, given, groups, pattern_of(options), before, limits, rng):
            before[name] = learned
    assert seed % 8 or check(run, resources=SMALL) == []
    return "equal"


def learned_alike(
    run: Path, name: str, given: Options, groups: Mapping[str, Counts], pattern: Pattern,
    before: Mapping[str, Options], limits: Sequence[Any], rng: random.Random,
) -> Options:  # fmt: skip
    """Learn in both ways. The options that the training has; none if it is refused."""
    more, of = given.pop("more"), given.pop("extend", None)
    base = log_of(run, of) if of else None
    given = {key: value for key, value in given.items() if value not in (None, (), {})}
    options = {key: value for key, value in before.get(of, {}).items() if key not in ANEW} | given
    size, training, why = 3000, None, why_not_together(given, options, base)
    if base is not None:
        size = Model(base).n_vocab + more
        why += [] if more else ["ids already"]
    try:
        counts = weigh_slowly(groups, options)
        if not why:
            must = tuple(map(readable, options.get("must", ())))
            config = TrainConfig.from_options(**options | {"must": must, "vocab_size": MOST})
            size, training = learn_slowly(counts, config, more, pattern, base)
    except Refused as refused:
        why += refused.words
    why += ["--must"] * ("must" in options)  # what is wrong with one may be found before all else
    extend = [f"--extend={run}:{of}"] if of else []
    command = ("train", run, "--name", name, *typed(given), *extend, f"--vocab-size={max(size, 1)}", *limits)
    told = refusal(*command)
    if training is None:
        assert Refused(*why).agrees(told), (why, told, command)
        return {}
    assert not told, (told, command)
    log = log_of(run, name)
    assert log.events == (*(base.events if base else ()), *training.events), command
    assert Alphabet.from_header(log.header.alphabet) == training.vocabulary.alphabet
    assert {word.content: word.id for word in log.header.stop_words} == training.vocabulary.stop_ids
    assert Model(log).n_vocab == training.size, command
    encode = Tokenizer(log).encode_ordinary
    assert all(len(encode(text)) == 1 for text in config.must), command
    return options
