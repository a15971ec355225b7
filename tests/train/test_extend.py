"""train --extend MODEL: going on from an existing vocabulary, on other text."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import streambpe
from streambpe.count_config import Counting
from streambpe.encode.formats.hf import import_hf
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import (
    EventLogError,
    LimitError,
    ResumeMismatch,
    RunError,
    StreambpeError,
    UsageError,
)
from streambpe.inspect.extended import extend_report
from streambpe.model.alphabet import Alphabet, bytes_alphabet, seen_alphabet
from streambpe.model.eventlog import (
    Event,
    EventLog,
    FixedIds,
    Header,
    Special,
    StopWord,
    delete_event,
    merge_event,
    read_event_log,
    supermerge_event,
    write_event_log,
)
from streambpe.model.replay import Model
from streambpe.model.vocabulary import Vocabulary
from streambpe.text.patterns import find_pattern
from streambpe.train import extension
from streambpe.train.commands import resume, train
from streambpe.train.engine import column
from streambpe.train.extension import Extension
from tests import oracles
from tests.oracles.replay import decode_bytes
from tests.oracles.splits import split_text
from tests.oracles.tables import check
from tests.peers import by_tokenizers
from tests.runs import SMALL, cli, counted_run, killed_at, log_of
from tests.samples import natural_text, written
from tests.tiers import seeds


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> tuple[Path, Path]:
    """Two texts that differ."""
    folder = tmp_path_factory.mktemp("texts")
    for seed in (5, 6):
        (folder / f"{seed}.txt").write_text(natural_text(seed, 12_000), encoding="utf-8")
    return folder / "5.txt", folder / "6.txt"


@pytest.fixture(scope="module")
def base(texts, tmp_path_factory) -> Path:
    """A model of the first text, with special tokens and reserved ids behind its 310 tokens."""
    run = tmp_path_factory.mktemp("base") / "run"
    train(run, [str(texts[0])], resources=SMALL, vocab_size=315, special=("<s>", "</s>"), reserve=3)
    return run


# ---------------------------------------------------------------------------------------------------------
# what is learned


def test_the_same_text_gives_the_events_of_one_training(texts, tmp_path):
    """300 ids, then 340, then by growing to 380: the events of one training to 380; and all tables add up."""
    options = {"like": "kensho", "special": ("<s>",), "block_token": ("th", " a"), "normalize": "nfc"}
    train(tmp_path / "small", [str(texts[0])], resources=SMALL, vocab_size=300, **options)
    train(tmp_path / "whole", [str(texts[0])], resources=SMALL, vocab_size=380, **options)
    extended = tmp_path / "extended"
    train(extended, [str(texts[0])], resources=SMALL, extend=tmp_path / "small", vocab_size=340)
    assert check(extended) == []
    result = train(extended, resources=SMALL, vocab_size=380)
    assert log_of(extended).events == log_of(tmp_path / "whole").events
    assert (result.size, result.reached) == (381, True)  # kensho does not count special tokens
    assert check(extended) == []


def slow_extension(log: EventLog, chunks: dict[str, int], tokens: int) -> list[Event]:
    """The events behind those of `log`, as the reference learns them; what is not in its alphabet is dropped."""
    alphabet = Alphabet.from_header(log.header.alphabet)
    counts: Counter[bytes] = Counter()
    for chunk, n in chunks.items():
        counts[bytes(byte for byte in chunk.encode() if bytes([byte]) in alphabet.id_of)] += n
    size = len(alphabet) + len({event.id for event in log.events}) + tokens
    return oracles.train_words(counts, alphabet, size, inherited=log.events).events


def test_a_model_that_ended_before_its_size_has_the_ids_that_it_has(tmp_path):
    """Not those that were asked for."""
    small = train(counted_run(tmp_path / "small", {"abc": 2}), vocab_size=1000, resources=SMALL)
    more = counted_run(tmp_path / "more", {"xyz": 2, "abcxy": 3})
    assert train(more, extend=small.log, vocab_size=small.size + 1, resources=SMALL).size == small.size + 1 == 259
    with pytest.raises(UsageError, match="has 258 ids already"):
        train(more, name="none", extend=small.log, vocab_size=258, resources=SMALL)


def any_model(rng: random.Random) -> EventLog:
    """Merges of any kind, in any order: they may make a token again, of other parts, or never apply to a text; special
    tokens and gaps among the ids."""
    alphabet = rng.choice([bytes_alphabet(), seen_alphabet([b"abc"]), bytes_alphabet(1)])
    vocabulary, events = Vocabulary(alphabet), list[Event]()
    some = [alphabet.id_of[letter] for letter in (b"a", b"b", b"c")]
    for _ in range(rng.randint(0, 7)):
        pair = rng.choice(some), rng.choice(some)
        if len(vocabulary[pair[0]].content + vocabulary[pair[1]].content) <= 8:
            events.append(merge_event(*pair, vocabulary.learn(*pair), 0))
            some = list(dict.fromkeys([*some, events[-1].id]))
    one, free, other = sorted(rng.sample(range(alphabet.first_id, alphabet.first_id + vocabulary.size + 3), 3))
    config = {"pattern": "gpt4o"} | ({"unknown": "drop"} if len(alphabet) < 256 else {})
    header = Header(
        alphabet.to_header(), config, specials=(Special("<x>", one), Special("<y>", other)), reserved=1,
        fixed=FixedIds(len(events), ((free, 1),)),
    )  # fmt: skip
    return EventLog(header, tuple(events))


@pytest.mark.parametrize("seed", seeds(64))
def test_any_model_goes_on_as_the_slow_reference_says(tmp_path, seed, monkeypatch):
    """Merges that never occur, that tie, that spell a token again, of other parts; special tokens and gaps among the
    ids, which stay. The tables add up, also where every word is counted in pieces, as large ones are."""
    monkeypatch.setattr(column, "_PLACES", 3)
    rng = random.Random(seed)
    log, tokens = any_model(rng), rng.randint(1, 12)
    chunks = {"".join(rng.choices("abcd", k=rng.randint(1, 12))): rng.randint(1, 6) for _ in range(rng.randint(1, 8))}
    run, before = counted_run(tmp_path / "run", chunks), Model(log)
    made = read_event_log(train(run, resources=SMALL, extend=log, vocab_size=before.n_vocab + tokens).log)
    assert list(made.events) == [*log.events, *slow_extension(log, chunks, tokens)]
    after = Model(made)
    assert all(after.content(after.log_id[n]) == before.content(one) for n, one in before.log_id.items())
    assert (after.special_ids, after.reserved_ids) == (before.special_ids, before.reserved_ids)
    first, ids = after.alphabet.first_id, [*after.log_id, *after.special_ids.values(), *after.reserved_ids]
    assert sorted(ids) == list(range(first, first + after.n_vocab))
    assert check(run) == []


# ---------------------------------------------------------------------------------------------------------
# ids, text, exports


@pytest.fixture(scope="module")
def made(base, texts, tmp_path_factory) -> Path:
    """The model, extended by 60 tokens of the other text."""
    run = tmp_path_factory.mktemp("made") / "run"
    train(run, [str(texts[1])], resources=SMALL, extend=base, vocab_size=375)
    return run


@pytest.mark.long
def test_exports_are_the_old_ones_and_more(base, made, texts, tmp_path):
    """hf and tiktoken read the extended file; its vocabulary and merges begin with those of the old file. Special
    tokens between tokens, and ids that stand for nothing, are kept by an import, and by --extend of it."""
    for run, name in ((base, "old"), (made, "new")):
        (told,) = streambpe.export(run, "hf", tmp_path / f"{name}.json", verify=str(texts[1]))
        assert told.exact
        assert told.comparison.exact
    before, after = (json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) for name in ("old", "new"))
    assert before["model"]["vocab"].items() <= after["model"]["vocab"].items()
    assert after["model"]["merges"][: len(before["model"]["merges"])] == before["model"]["merges"]
    assert after["added_tokens"] == before["added_tokens"]
    assert len(after["model"]["vocab"]) == len(before["model"]["vocab"]) + 60
    assert streambpe.export(made, "tiktoken", tmp_path / "a.tiktoken", verify=str(texts[1]))[0].comparison.exact
    log, text = import_hf(tmp_path / "new.json"), natural_text(8, 500)
    model, whole = Model(log), Model(log_of(made))
    assert (model.special_ids, model.reserved_ids) == (whole.special_ids, whole.reserved_ids)
    assert [event.pair for event in log.events] == [event.pair for event in log_of(made).events]
    assert Tokenizer(log).encode_ordinary(text) == Tokenizer(log_of(made)).encode_ordinary(text)
    options, _ = Extension.of(log).options({"vocab_size": 400}, Counting())
    assert (options["reserve"], options["specials"]) == (3, ("<s>", "</s>"))


@pytest.mark.long
def test_a_tokenizer_json_is_extended_as_bpe_continue_does(texts, tmp_path):
    """The same merges and ids as bpe-continue 0.1.0, from a file that `tokenizers` made."""
    bpe_continue = pytest.importorskip("bpe_continue")
    pytest.importorskip("tokenizers")
    start = by_tokenizers([texts[0].read_text(encoding="utf-8")], 400, special_tokens=["<s>"])
    start.save(str(tmp_path / "old.json"))
    theirs = bpe_continue.continue_training(
        start, texts=[texts[1].read_text(encoding="utf-8")], vocab_size=600, show_progress=False
    )
    theirs = json.loads(theirs.to_str())["model"]
    train(tmp_path / "run", [str(texts[1])], resources=SMALL, extend=tmp_path / "old.json", vocab_size=600)
    streambpe.export(tmp_path / "run", "hf", tmp_path / "new.json")
    ours = json.loads((tmp_path / "new.json").read_text(encoding="utf-8"))["model"]
    assert ours["merges"] == [list(pair) for pair in theirs["merges"]]
    assert ours["vocab"] == theirs["vocab"]


def test_the_report_of_an_extension(base, made, texts, tmp_path):
    """Bytes per token are those of encoding; each new id is made of old ones, in all forms of the answer."""
    old, new = (Tokenizer(log_of(run)) for run in (base, made))
    text = texts[1].read_text(encoding="utf-8")
    before, after = old.encode_ordinary(text), new.encode_ordinary(text)
    found = extend_report(str(made), text=[str(texts[1])], resources=SMALL)
    size = len(text.encode())
    assert (found.ids, found.ids_before) == (375, 315)
    assert found.bytes_per_token_before == pytest.approx(size / len(before))
    assert found.bytes_per_token == pytest.approx(size / len(after))
    assert sum(one.saved for one in found.new) == len(before) - len(after)
    parts = {one.id: one.parts for one in found.new}
    assert list(parts) == list(range(315, 375))
    assert [old for number in after for old in parts.get(number, [number])] == before, "it differs by joins of old ids"
    uses = Counter(after)
    for one in found.new:
        assert one.uses == uses[one.id]
        assert b"".join(map(old.decode_single_token_bytes, one.parts)) == new.decode_single_token_bytes(one.id)
    assert extend_report(str(made), resources=SMALL) == found
    told = json.loads(cli("extend-report", made, "--json").stdout)
    assert [(one["id"], one["parts"]) for one in told["new"]] == [(one.id, one.parts) for one in found.new]
    told = cli("extend-report", made, "--top", 1, "--progress", "none").stdout.splitlines()
    assert told[0].startswith(f"{made}: 375 ids, 60 of them new. Bytes per token: {size / len(before):.3f} -> ")
    assert told[1].split()[0] == str(found.best(1)[0].id)
    assert "does not extend a model" in cli("extend-report", base, expect=2).stderr


def test_a_cut_never_goes_below_what_was_extended(made, tmp_path):
    """A smaller model of the extended one is the one trained at that size; 314 ids are too few."""
    (cut,) = streambpe.export(made, "events", tmp_path / "cut.jsonl", vocab_size=[330])
    assert cut.n_vocab == 330
    read = read_event_log(tmp_path / "cut.jsonl")
    assert (read.header.inherited, len(read.events)) == (54, 69)
    assert Model(read).special_ids == {"<s>": 310, "</s>": 311}
    streambpe.export(made, "events", tmp_path / "none.jsonl", vocab_size=[315])
    with pytest.raises(UsageError, match="its first 315 ids came from another model"):
        streambpe.export(made, "events", tmp_path / "less.jsonl", vocab_size=[314])


@pytest.mark.long
def test_a_list_of_merges_of_uw_is_extended_by_its_second_pattern(texts, tmp_path):
    """uw's model is a list of merges used with its second pattern, and so is the extended one."""
    superwords = {"superwords": "uw", "transition": 330, "vocab_size": 360}
    train(tmp_path / "uw", [str(texts[0])], resources=SMALL, **superwords)
    train(tmp_path / "run", [str(texts[1])], resources=SMALL, extend=tmp_path / "uw", vocab_size=380)
    old, new = (Tokenizer(log_of(tmp_path / name)) for name in ("uw", "run"))
    text = texts[1].read_text(encoding="utf-8")
    assert split_text(new.encoder.pattern, text) == split_text(old.encoder.pattern, text)
    assert len(new.encode_ordinary(text)) < len(old.encode_ordinary(text))
    assert check(tmp_path / "run") == []


@pytest.mark.long
def test_superwords_go_on_from_any_vocabulary(base, texts, tmp_path):
    """--superwords uw: the slow reference on text that the second pattern cuts; the report measures on texts."""
    run, log, source = tmp_path / "run", log_of(base), tmp_path / "text.txt"
    text = texts[1].read_text(encoding="utf-8")[:1500] + "by the end of the \n" * 30
    source.write_text(text, encoding="utf-8")
    train(run, [str(source)], resources=SMALL, extend=base, superwords="uw", vocab_size=327)
    made = log_of(run)
    chunks = Counter(split_text(find_pattern("superbpe2", gaps="keep"), text))
    assert list(made.events) == [*log.events, *slow_extension(log, chunks, 12)]
    new, old = Tokenizer(made), Tokenizer(log)
    assert any(len(old.encoder.split(new.decode([number]))) > 1 for number in range(315, 327))
    assert (made.header.config["pattern"], made.header.config["extends_pattern"]) == ("superbpe2", "gpt4o")
    assert check(run) == []
    with pytest.raises(UsageError, match="Give texts to measure on"):
        extend_report(str(run), resources=SMALL)
    found = extend_report(str(run), text=[str(source)], resources=SMALL)
    for told, tokenizer in ((found.bytes_per_token_before, old), (found.bytes_per_token, new)):
        assert told == pytest.approx(len(text.encode()) / len(tokenizer.encode_ordinary(text)))
    grown = train(run, resources=SMALL, vocab_size=330)
    again = {"extend": run / "extended.jsonl", "superwords": "uw", "stage2_pattern": "superbpe2", "vocab_size": 330}
    assert train(tmp_path / "again", [str(source)], resources=SMALL, **again).sha256 == grown.sha256


# ---------------------------------------------------------------------------------------------------------
# stopped, killed, refused


@pytest.mark.long
def test_a_killed_training_goes_on_without_the_model(base, made, texts, tmp_path):
    """Killed in the middle `resume` goes on, though MODEL is gone; the log has the same bytes."""
    run, model = tmp_path / "run", written(tmp_path / "model.jsonl", (base / "model.events.jsonl").read_bytes())
    with killed_at("events-committed"):
        train(run, [str(texts[1])], resources=SMALL, extend=model, vocab_size=375, checkpoint_seconds=0)
    model.unlink()
    assert check(run) == []
    resume(run, resources=SMALL)
    assert (run / "model.events.jsonl").read_bytes() == (made / "model.events.jsonl").read_bytes()


UW = {"superwords": "uw"}
BARE = Header(bytes_alphabet().to_header(), config={"pattern": "gpt4o"})
CHARACTERS = Header(Alphabet("chars", (b"a", b"b")).to_header(), config={"pattern": "gpt4o"})
DELETED = (merge_event(97, 98, 256, 3), delete_event(256, (97, 98), 1))
REFUSED: list[tuple[EventLog | None, dict[str, Any], str]] = [
    (None, {"vocab_size": None}, "needs --vocab-size"),
    (None, {"vocab_size": 315}, "has 315 ids already"),
    (None, {"pattern": "gpt2"}, "--pattern gpt2 with --extend .*it has --pattern gpt4o"),
    (None, {"special": ["<z>"]}, "--special <z> with --extend"),
    (None, {"alphabet": "bytes"}, "--alphabet bytes with --extend"),
    (None, {"stop_list": 3}, "it has none"),
    (None, {"like": "hf"}, "and --like hf: .*Leave one of the two out"),
    (None, {"as_model": "RUN"}, "--as RUN and --extend"),
    (EventLog(BARE, DELETED), {}, "learned with deletions"),
    (EventLog(BARE, (supermerge_event(97, 98, 256, 3),)), {}, "superwords of whole chunks"),
    (EventLog(replace(BARE, config={}), ()), {}, "does not say how text is split"),
    (None, UW | {"transition": 350}, "--transition with --superwords uw and --extend"),
    (None, UW | {"forbid": "x"}, "no words are learned before"),
    (None, {"superwords": "superbpe", "transition": 350}, "whole chunks are chosen in competition"),
    (EventLog(CHARACTERS, ()), UW, "its symbols are not bytes"),
    (EventLog(replace(BARE, stop_words=(StopWord(256, b" of"),)), ()), UW, "its stop words are chunks"),
    (EventLog(replace(BARE, config={"pattern": "gpt4o", "split_scripts": True}), ()), UW, "by an expression alone"),
    (EventLog(replace(BARE, config={"pattern": r"\w+", "gaps": "drop"}), ()), UW, "leaves out text"),
]


@pytest.mark.parametrize(("model", "options", "why"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_cannot_be_is_refused(base, texts, tmp_path, model, options, why):
    """A model that cannot be gone on from so, and what it says itself: by name, and nothing is made."""
    with pytest.raises(StreambpeError, match=why):
        train(
            tmp_path / "run", [str(texts[1])], resources=SMALL, extend=model or base, **{"vocab_size": 400, **options}
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_model_that_does_not_fit_memory_is_refused(base, texts, tmp_path, monkeypatch):
    """Before anything is made, with the --memory that it takes; a training that goes on is refused as well."""
    train(tmp_path / "run", [str(texts[1])], resources=SMALL, extend=base, vocab_size=330)
    monkeypatch.setattr(extension, "TOKEN_BYTES", 10**7)
    message = "has 54 merges, and encoding with it takes 675 MB; --memory is 400.0 MB.*Give --memory 675MB"
    with pytest.raises(LimitError, match=message):
        train(tmp_path / "other", [str(texts[1])], resources=SMALL, extend=base, vocab_size=330)
    assert not (tmp_path / "other").exists()
    with pytest.raises(LimitError, match=message):
        train(tmp_path / "run", resources=SMALL, vocab_size=340)


@pytest.mark.long
def test_a_run_of_another_pattern_or_training_is_refused(base, texts, tmp_path):
    """Counts of another pattern, a training that was begun without, with another, or whose copy is gone."""
    train(tmp_path / "gpt2", [str(texts[1])], resources=SMALL, vocab_size=300, pattern="gpt2")
    with pytest.raises(StreambpeError, match="was counted with --pattern gpt2, not gpt4o"):
        train(tmp_path / "gpt2", resources=SMALL, extend=base, vocab_size=400, name="more")
    with pytest.raises(StreambpeError, match="was counted with --pattern gpt2, not superbpe2"):
        train(tmp_path / "gpt2", resources=SMALL, extend=base, vocab_size=400, name="more", superwords="uw")
    run = tmp_path / "run"
    train(run, [str(texts[1])], resources=SMALL, vocab_size=300)
    with pytest.raises(ResumeMismatch, match="was started without --extend"):
        train(run, resources=SMALL, extend=base, vocab_size=400)
    train(run, resources=SMALL, extend=base, vocab_size=330, name="more")
    assert check(run) == []
    with pytest.raises(ResumeMismatch, match="to extend another model"):
        train(run, resources=SMALL, extend=run, vocab_size=400, name="more")
    (run / "more.extended.jsonl").write_text("{}")
    with pytest.raises(RunError, match="has changed"):
        train(run, resources=SMALL, vocab_size=400, name="more")
    assert any("has changed" in str(problem) for problem in check(run))


@pytest.mark.long
def test_on_the_command_line(base, texts, tmp_path):
    """The command, explain's word about an inherited token, and the options that are left behind."""
    run = tmp_path / "run"
    done = cli("train", run, texts[1], "--extend", base, "-s", "340", "--progress", "none")
    assert "340 ids" in done.stderr
    old = log_of(base).events[0]
    told = cli("explain", run, f"log:{old.id}").stdout
    assert "a token of the extended model" in told
    assert "--extend MODEL" in (run / "train.toml").read_text(encoding="utf-8")
    other = tmp_path / "other"
    config = ("--config", run / "train.toml", "--progress", "none")
    cli("train", other, texts[1], "--extend", run / "extended.jsonl", *config)
    assert log_of(other).events == log_of(run).events


# ---------------------------------------------------------------------------------------------------------
# version 2 of the event log

ALPHABET = seen_alphabet([b"ab"]).to_header()
EVENTS = (merge_event(0, 1, 2, 5), merge_event(2, 0, 3, 4), merge_event(3, 0, 4, 4))
SECOND = EventLog(Header(ALPHABET, specials=(Special("<s>", 1),), reserved=2, fixed=FixedIds(2, ((3, 2),))), EVENTS)


def test_version_two_is_read_as_written(tmp_path):
    """Ids 0 2 5 6 7 are tokens, 1 the special one, 3 and 4 free."""
    write_event_log(tmp_path / "log", SECOND)
    assert (tmp_path / "log").read_bytes().startswith(b'{"format":"streambpe-events","version":2,')
    assert b'"reserved":2,"inherited":2,"free":[[3,2]],"events":{"count":3,' in (tmp_path / "log").read_bytes()
    assert read_event_log(tmp_path / "log") == SECOND
    model = Model(SECOND)
    assert (sorted(model.log_id), model.special_ids, model.reserved_ids) == ([0, 2, 5, 6, 7], {"<s>": 1}, [3, 4])
    assert decode_bytes(model, [7, 1, 0]) == b"abaa<s>a"


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"fixed": FixedIds(4, ((3, 2),))}, "4 events are inherited, but the file has 3"),
        ({"fixed": FixedIds(2, ((3, 1),))}, "another number of ids is free"),
        ({"fixed": FixedIds(2, ((1, 2),))}, "two special tokens or free ids have the same id"),
        ({"fixed": FixedIds(2, ((6, 2),))}, "id 7 is fixed, but the inherited ids are 0 to 6"),
        ({"specials": (Special("<s>", -1),)}, "line 1"),
        ({"fixed": FixedIds(1, ((3, 2),)), "specials": (Special("<s>", 6),)}, "id 6 is fixed"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path, header, why):
    """Ids that would be given twice or never."""
    write_event_log(tmp_path / "log", EventLog(replace(SECOND.header, **header), EVENTS))
    with pytest.raises(EventLogError, match=why):
        read_event_log(tmp_path / "log")
