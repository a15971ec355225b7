"""Kinds of random cases (tests/fuzz.py). Each takes a seed and an empty folder, and raises at the first difference.

It returns what came of the case: "equal" where two ways agreed, "refused" where one message said what is wrong.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import json
import lzma
import random
import shutil
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tiktoken
import tokenizers

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.export import export
from streambpe.encode.formats.hf import tokenizer_json
from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import NotKept, StreambpeError
from streambpe.model.alphabet import script_alphabet
from streambpe.model.eventlog import Event, EventLog, Header, merge_event, read_event_log, write_event_log
from streambpe.model.script import encode_text
from streambpe.store.checksums import add_checksum, with_sum
from streambpe.text.patterns import PRESETS
from tests import damage, kills, rot
from tests.choices import choices, count_in_pieces, documents, file_of, refusal
from tests.hostile import random_text
from tests.oracles.replay import decode_bytes, encode_chunks, to_model_ids
from tests.peers import by_tokenizers
from tests.runs import rows
from tests.samples import written
from tests.sources.test_sources import write
from tests.text import test_program
from tests.train import test_superwords, test_uw
from tests.trained import HOSTILE, KINDS, TEXT, random_log, trained

MODELS = Path(__file__).parent / "golden" / "models"


# ---------------------------------------------------------------- learning


def superwords(seed: int, folder: Path) -> str:
    """Superwords over whole chunks, or over any neighbours in two stages: events, tables and runs against the slow
    reference."""
    tests = (test_superwords, test_uw)
    tests[seed % 2].test_equals_the_slow_reference(seed, folder)
    return "equal"


# ---------------------------------------------------------------- encoding


def _texts(rng: random.Random, number: int) -> list[str]:
    made = [random_text(rng, rng.choice((3, 30, 200))) for _ in range(number)]
    return [*made, rng.choice(HOSTILE), TEXT[: rng.randrange(400)]]


def _agree(log: EventLog, texts: Sequence[str]) -> str:
    """Each way of encoding says what replaying the events one by one says; what is refused, each refuses."""
    tokenizer = Tokenizer(log)
    encoder: Encoder = tokenizer.encoder
    refused = 0
    for text in texts:
        try:
            chunks = encoder.split(text)
            wanted = to_model_ids(encoder.model, encode_chunks(encoder.model, [chunk.encode() for chunk in chunks]))
        except (KeyError, ValueError, StreambpeError) as why:  # a deleted token, a symbol outside the alphabet
            try:
                found = tokenizer.encode_ordinary(text)
            except (KeyError, ValueError, StreambpeError):
                refused += 1
                continue
            raise AssertionError(f"replay refuses {text!r} ({why}), the tokenizer gives {found}") from None
        assert tokenizer.encode_ordinary(text) == wanted, text
        assert tokenizer.encode_ordinary_batch([text, text]) == [wanted, wanted], text
        step = 1 + len(text) // 7
        if encoder.pattern.word_mark == "" and encoder.header.config.get("normalize", "none") == "none":
            pieces = [text[i : i + step] for i in range(0, len(text), step)]
            assert list(tokenizer.encode_stream(pieces)) == wanted, text
        assert tokenizer.decode_bytes(wanted) == decode_bytes(encoder.model, wanted), text
    return "refused" if refused == len(texts) else "equal"


def encoders(seed: int, folder: Path) -> str:
    """A model of any kind, also ones that no training makes, on hostile text: every way to encode, and its copy."""
    rng = random.Random(seed)
    if rng.random() < 0.5:
        log = random_log(seed)
        texts = ["".join(rng.choices(["a", "b", "ab", " a", " ab", "c", " bc", ".", " "], k=40)) for _ in range(6)]
    else:
        log, texts = trained(rng.choice(KINDS)), _texts(rng, 4)
    path, back = folder / "a.events.jsonl", folder / "b.events.jsonl"
    write_event_log(path, log)
    export(path, "events", back)
    assert path.read_bytes() == back.read_bytes()
    return _agree(read_event_log(path), texts)


# ---------------------------------------------------------------- counting


def readers(seed: int, folder: Path) -> str:
    """A damaged file, counted in two ways: the same chunks, or both refuse it."""
    rng, other = random.Random(seed), folder / "other"
    other.mkdir()
    lines = rng.random() < 0.3
    path, kind = file_of(rng, folder / "a", documents(rng), lines)
    more = [write(other / path.name, documents(rng), kind).read_bytes()]
    path.write_bytes(damage.damaged(path.read_bytes(), more, rng))
    told, found = [], []
    for run in (folder / "run0", folder / "run1"):
        told.append(count_in_pieces(rng, run, path, "--memory", "400MB", *["--lines"] * lines))
        found.append(told[-1] or dict(rows(run, "FROM chunk_counts")))
    assert bool(told[0]) == bool(told[1]), told
    assert told[0] or found[0] == found[1]
    return "refused" if told[0] else "equal"


# ---------------------------------------------------------------- model files


@cache
def _model_files() -> dict[str, bytes]:
    """Files of every format that `import` reads, by name: exported here, and of other programs."""
    files = {}
    with TemporaryDirectory() as place:
        for kind in ("plain", "boundless", "uw"):
            for to, name in (("hf", "json"), ("tiktoken", "tiktoken"), ("boundless", "model")):
                path = Path(place) / f"{kind}.{name}"
                export(trained(kind), to, path)
                files[path.name] = path.read_bytes()
    for path in sorted(MODELS.glob("*.xz")):
        data = lzma.decompress(path.read_bytes())
        if len(data) < 500_000:
            files[path.stem] = data
    return files


_SOME = [" ab c. bc ab", "the end of the day", " 12 naïve\n\t日本 👍🏽", "aaaaaaaa", "\x00\x7f\u0301"]


def _usable(log: EventLog) -> str:
    """A log that was read can be written, read again and encoded with; or one message says why not."""
    try:
        Tokenizer(log)
        return _agree(log, _SOME)
    except StreambpeError:
        return "refused"


def importers(seed: int, folder: Path) -> str:
    """A damaged model file of another program: refused, or a model that encodes as its own replay says."""
    rng = random.Random(seed)
    files = _model_files()
    name = rng.choice(sorted(files))
    data = files[name]
    if data.startswith(b"{") and rng.random() < 0.7:
        document = damage.changed_value(json.loads(data), rng)
        data = json.dumps(document).encode()
    else:
        data = damage.damaged(data, [files[other] for other in files if Path(other).suffix == Path(name).suffix], rng)
    path, log = folder / name, folder / "log.events.jsonl"
    path.write_bytes(data)
    more = ("--pattern", "gpt2") if name.endswith("tiktoken") else ()
    if refusal("import", path, "-o", log, *more):
        assert not log.exists()
        return "refused"
    return _usable(read_event_log(log))


def _assigned(text: str) -> str:
    """Without characters that libraries of an older Unicode do not know."""
    return "".join(character for character in text if unicodedata.category(character) != "Cn")


_ADDED = ("<think>", "  ", "the", "<s><s>", " <pad>", "e\u0301<", "<|end|>", "1", "<s>>")


@cache
def _tokenizer_documents() -> list[str]:
    """Files of tokenizer.json: one written here, and two of the library, of which one lacks bytes."""
    found = [json.dumps(tokenizer_json(Encoder(trained("plain")))[0])]
    for complete in (True, False):
        unk = None if complete else "<unk>"
        made = by_tokenizers([TEXT], 330, all_bytes=complete, unk=unk, special_tokens=["<s>", "<unk>"])
        found.append(made.to_str())
    return found


def _said_otherwise(document: dict[str, Any], rng: random.Random) -> None:
    """Change the merges or an added token of a tokenizer.json; encode/test_imports.py changes other fields."""
    model, added = document["model"], document["added_tokens"]
    what = rng.choice(("new", "new", "new", "id", "merges"))
    if what == "new":
        number = max([*model["vocab"].values(), *(token["id"] for token in added)]) + rng.choice((1, 1, 1, 2))
        flags = {name: rng.random() < 0.1 for name in ("single_word", "lstrip", "rstrip", "normalized")}
        content = rng.choice((*_ADDED, rng.choice(list(model["vocab"]))))
        added.append({"id": model["vocab"].get(content, number), "content": content, **flags,
                      "special": rng.random() < 0.7})  # fmt: skip
    elif what == "id" and added:
        rng.choice(added)["id"] += rng.choice((-1, 1, 7))
    else:
        one, two = (rng.randrange(len(model["merges"])) for _ in range(2))
        if rng.random() < 0.5:
            model["merges"][one], model["merges"][two] = model["merges"][two], model["merges"][one]
        else:
            model["merges"].insert(two, model["merges"][one])


def tokenizer_files(seed: int, folder: Path) -> str:
    """A tokenizer.json that says something else: refused, or equal ids in the library; those of text with added tokens
    too, where nothing is told."""
    rng = random.Random(seed)
    document = json.loads(rng.choice(_tokenizer_documents()))
    for _ in range(rng.choice((1, 1, 1, 2))):
        _said_otherwise(document, rng)
    path = written(folder / "tokenizer.json", json.dumps(document))
    try:
        there = tokenizers.Tokenizer.from_file(str(path))
    except Exception:  # the library has no class of its own for a file that it refuses
        return "refused"
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", NotKept)
            log = import_file(path)
    except StreambpeError:
        return "refused"
    write_event_log(folder / "log.events.jsonl", log)
    ours = Tokenizer(read_event_log(folder / "log.events.jsonl"))
    spelled = [token["content"] for token in document["added_tokens"]]
    texts = [_assigned(text) for text in (*_texts(rng, 2), *_SOME, *_OF_SPACES)]
    there.encode_special_tokens = True
    for text in texts:
        if not any(token in text for token in spelled):
            assert there.encode(text, add_special_tokens=False).ids == ours.encode_ordinary(text), text
    about_text = [one for one in told if "of '" in str(one.message)]
    for text in texts if spelled else ():
        text = rng.choice(("", " ", "\n", "x")).join((text[:9], rng.choice(spelled), text[9:], rng.choice(spelled)))
        if not any("special: false" in str(one.message) for one in told):
            there.encode_special_tokens = True
            assert there.encode(text, add_special_tokens=False).ids == ours.encode_ordinary(text), text
        if not about_text:
            there.encode_special_tokens = False
            assert there.encode(text, add_special_tokens=False).ids == ours.encode(text, allowed_special="all"), text
    return "equal"


_OF_SPACES = ["a  b", "the  the\t\tthe", "1 11 111 1111", "e\u0301 \u00e9 cafe\u0301"]


def ranks(seed: int, folder: Path) -> str:
    """Ranks with a few lines lost, moved, doubled or made up: refused, or equal ids in tiktoken."""
    rng = random.Random(seed)
    lines = [line.split() for line in _model_files()["plain.tiktoken"].splitlines()]
    for _ in range(rng.choice((1, 1, 2, 5))):
        what, one, two = rng.random(), rng.randrange(len(lines)), rng.randrange(256, len(lines))
        if what < 0.2:
            del lines[one]
        elif what < 0.5:  # two tokens change their ranks
            three = rng.randrange(256, len(lines)) if rng.random() < 0.7 else one
            lines[two], lines[three] = [lines[three][0], lines[two][1]], [lines[two][0], lines[three][1]]
        elif what < 0.6:
            lines[one] = [lines[one][0], b"%d" % rng.choice((-1, 0, 300, 2**31, 10**30))]
        else:  # a token that two others spell
            spelled = base64.b64decode(lines[one][0]) + base64.b64decode(lines[two][0])
            number = len(lines) + rng.choice((0, 0, 0, 1))
            lines.append([base64.b64encode(spelled), b"%d" % number])
    path = written(folder / "some.tiktoken", b"\n".join(b" ".join(line) for line in lines))
    try:
        ours = Tokenizer(import_file(path, pattern="gpt2"))
    except StreambpeError:
        return "refused"
    ranked = {base64.b64decode(token): int(number) for token, number in lines}
    there = tiktoken.Encoding("some", pat_str=PRESETS["gpt2"].expression, mergeable_ranks=ranked, special_tokens={})
    for text in map(_assigned, (*_texts(rng, 2), *_SOME)):
        if all(bytes([byte]) in ranked for byte in text.encode()):
            assert there.encode_ordinary(text) == ours.encode_ordinary(text), text
    return "equal"


def _script_log(rng: random.Random) -> EventLog:
    """A log over SCRIPT's symbols, those that the texts of `_SOME` are made of among them."""
    alphabet = script_alphabet(rng.choice(("bytes", "error"))).to_header()
    known = encode_text("the end of the day")
    events: list[Event] = []
    for number in range(1 + alphabet["size"], 1 + alphabet["size"] + rng.randint(0, 12)):
        events.append(merge_event(rng.choice(known), rng.choice(known), number, 1))
        known.append(number)
    return EventLog(Header(alphabet, {"pattern": "script"}), tuple(events))


def logs(seed: int, folder: Path) -> str:
    """An event log in which something else is said, its digest mostly right: refused, or it encodes as replayed."""
    rng = random.Random(seed)
    logs = (random_log, lambda seed: trained(rng.choice(KINDS)), lambda seed: _script_log(rng))
    path = folder / "a.events.jsonl"
    write_event_log(path, rng.choice(logs)(seed))
    header, *events = [json.loads(line) for line in path.read_bytes().splitlines()]
    if header["config"]["pattern"] not in PRESETS:  # a user's own is split in a process of its own: slow
        header["config"]["pattern"] = "gpt2"
    for _ in range(rng.choice((1, 1, 2))):
        header, events = _said_anew(header, events, rng)
    if rng.random() < 0.05:
        header = damage.changed_value(header, rng)
    body = b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)
    if isinstance(header, dict) and isinstance(header.get("events"), dict) and rng.random() < 0.95:
        header["events"] |= {"count": len(events), "sha256": hashlib.sha256(body).hexdigest()}
    data = json.dumps(header, separators=(",", ":")).encode() + b"\n" + body
    path.write_bytes(data if rng.random() < 0.95 else damage.damaged(data, [body], rng))
    if rng.random() < 0.2:
        written(folder / "a.txt", "the end of the day\n")
        refusal("export", path, "--to", "boundless", "-o", folder / "a.model")
        refusal("prune", path, "--to", "270", "-o", folder / "p", "--text", folder / "a.txt", "--memory", "400MB")
    try:
        log = read_event_log(path)
    except StreambpeError:
        assert refusal("encode", path, input=" ab the end")
        return "refused"
    return _usable(log)


def _said_anew(header: dict[str, Any], events: list[Any], rng: random.Random) -> tuple[dict[str, Any], list[Any]]:
    """A log of which one thing is changed."""
    near = [-1, 0, 1, 2, 97, 255, 256, 257, 1915, 1916, 1917, 2171, 2172, 2173, 65535, 65536, 2**31 - 1, 2**31, 2**63]
    near += [event["id"] + add for event in events[-3:] for add in (-1, 0, 1)]
    what, at = rng.random(), rng.randint(0, len(events))
    if what < 0.15:
        other = _script_log(rng) if rng.random() < 0.5 else trained(rng.choice(KINDS))
        return {**header, "alphabet": dict(other.header.alphabet)}, events
    if what < 0.25:
        gone = {"op": "delete", "id": rng.choice(near), "into": rng.choices(near, k=rng.randint(0, 3)), "n": 1}
        return header, [*events[:at], gone, *events[at:]]
    if what < 0.35:  # an event twice or never
        return header, events[:at] + events[at : at + 1] * rng.choice((0, 2)) + events[at + 1 :]
    if what < 0.4:
        return header, rng.sample(events, len(events))
    if what < 0.5:
        return {**header, "version": 2, "inherited": rng.choice(near), "free": [rng.choices(near, k=2)]}, events
    place = rng.choice((header["alphabet"], header["alphabet"], header, *rng.choices(events or [header], k=3)))
    key = rng.choice(sorted(place))
    place[key] = _nearby(place[key], near, rng)
    return header, events


def _nearby(value: Any, near: Sequence[int], rng: random.Random) -> Any:
    """A value of the same kind as one of a log: another number, list, text or table."""
    if isinstance(value, dict):
        return {**value, rng.choice([*value, "size"]): rng.choice(near)}
    if isinstance(value, list):
        changed = list(value)
        rng.shuffle(changed)
        return [*changed[: rng.randint(0, len(changed))], *rng.choice(([], value[:1], [rng.choice(near)], ["6162"]))]
    if isinstance(value, int):
        return rng.choice(near)
    return rng.choice(("", "script", "bytes", "chars", "gpt2", "ab", "00", "merge", "supermerge", "delete", None))


# ---------------------------------------------------------------- RUNs


@cache
def _strange_run(state: str) -> Path:
    """A RUN in a state; kept as long as this process is."""
    folder = Path(mkdtemp(prefix="streambpe-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kills.begin(rot.STATES[state], kills.Place(folder / "place"))
    return folder / "place/run"


def _changed_file(file: Path, rng: random.Random) -> None:
    """Another value in it, its checksums made right again; or bytes of it lost and changed."""
    data = file.read_bytes()
    if file.name == "run.json":
        facts = json.loads(data)
        del facts["sum"]
        file.write_bytes(with_sum(json.dumps(damage.changed_value(facts, rng)).encode() + b"\n"))
    elif file.suffix == ".parquet" and rng.random() < 0.8:
        try:
            table = pq.read_table(file)
        except (OSError, pa.ArrowException):  # it was changed before
            return
        columns = [name for name in table.column_names if pa.types.is_integer(table[name].type) and table.num_rows]
        if not columns:
            return
        name = rng.choice(columns)
        values, kind = table[name].to_pylist(), table[name].type
        values[rng.randrange(len(values))] = rng.choice((-1, 0, 1, 2**20, 2**31 - 1, 2**62)) % (1 << kind.bit_width - 1)
        pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(values, kind)), file)
        add_checksum(file)
    else:
        file.write_bytes(damage.damaged(data, [], rng))


def runs(seed: int, folder: Path) -> str:
    """Somebody else's RUN, files of which say something else: every command uses it, or says in one message why not."""
    rng = random.Random(seed)
    run, text = folder / "run", written(folder / "a.txt", TEXT)
    shutil.copytree(_strange_run(rng.choice(list(rot.STATES))), run)
    for _ in range(rng.choice((1, 1, 2))):
        _changed_file(rng.choice(rot.files_of(run)), rng)
    limits = ("--memory", "400MB", "--threads", "1")
    commands = [
        ["status", run], ["check", run, *limits], ["check", run, "--replay", *limits], ["resume", run],
        ["sql", run, "SELECT * FROM vocabulary LIMIT 5"], ["encode", run, text, "-o", folder / "ids.npy", *limits],
        ["train", run, "-s", "420", *limits], ["train", run, text, "-s", "300", "--name", "b", "--lines", *limits],
        ["merge-counts", folder / "both", run, *limits], ["export-counts", run, "-o", folder / "counts.csv"],
        ["train", run, "-s", "300", "--name", "c", "--superwords", "boundless", *limits],
        ["report", run, "-o", folder / "page.html", *limits], ["watch", run],
    ]  # fmt: skip
    told = "".join(refusal(*command) for command in rng.sample(commands, 3))
    return "refused" if told else "equal"


# ---------------------------------------------------------------- patterns


def patterns(seed: int, folder: Path) -> str:
    """Regular expressions at random: counting splits hostile text as find-all does."""
    test_program.test_random_expressions(seed)
    return "equal"


FUZZ: tuple[Callable[[int, Path], str], ...] = (
    choices, superwords, encoders, patterns, readers, importers, tokenizer_files, ranks, logs, runs,
)  # fmt: skip
