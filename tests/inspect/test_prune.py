"""prune: a smaller vocabulary whose tokens all are tokens of the larger one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
import tokenizers

from streambpe.encode.encoder import Encoder
from streambpe.encode.grown import GrownUses
from streambpe.encode.tokenizer import Tokenizer
from streambpe.model.eventlog import EventLog, Op, read_event_log, write_event_log
from streambpe.model.events import Event, delete_event
from streambpe.model.pruned import prune_log, without_residues
from streambpe.model.replay import Model
from streambpe.train.commands import train
from tests.inspect.test_sizes import uses_by_replaying
from tests.oracles.replay import encode_chunk, encode_chunks, to_model_ids
from tests.oracles.splits import split_text
from tests.runs import SMALL, cli
from tests.samples import natural_text, written
from tests.tiers import seeds
from tests.trained import DOCUMENTS, random_log, trained

TEXT = natural_text(3, 20_000)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a vocabulary of 500 ids, some of them special or reserved."""
    folder = tmp_path_factory.mktemp("prune")
    options = {"pattern": "gpt2", "special": ("<s>",), "reserve": 2, "specials_first": True}
    train(folder / "run", [str(written(folder / "a.txt", TEXT))], resources=SMALL, vocab_size=500, **options)
    return folder / "run"


def replayed(tokenizer: Tokenizer, text: str) -> list[int]:
    """A text by the slow replay."""
    model, pattern = tokenizer.encoder.model, tokenizer.encoder.pattern
    return to_model_ids(model, encode_chunks(model, [chunk.encode() for chunk in split_text(pattern, text)]))


def removed_one_by_one(log: EventLog, uses: dict[int, int], many: int) -> list[int]:
    """The slow way: look at all tokens that no other one is made of, take the least used, and look again."""
    events, uses = list(log.events), Counter(uses)
    gone = []
    for _ in range(many):
        parts = {part for event in events for part in event.pair}
        least = min({event.id for event in events} - parts, key=lambda number: (uses[number], -number))
        maker = next(event for event in events if event.id == least)
        for part in maker.pair:
            uses[part] += uses[least]
        events = [event for event in events if event.id != least]
        gone.append(least)
    return gone


def test_what_leaves_and_what_stays(run, tmp_path):
    """Equal to taking one after the other; kept tokens keep their bytes, and encode as the slow replay says."""
    log = read_event_log(run / "model.events.jsonl")
    whole, rng = Model(log), random.Random(1)
    for many in (0, 1, 60, 150, 241):
        uses = {event.id: rng.choice([0, 1, 2, 50]) for event in log.events}
        small, moved = prune_log(log, uses, whole.n_vocab - many)
        model = Model(small)
        assert model.n_vocab == whole.n_vocab - many == small.header.config["vocab_size"]
        gone = {whole.model_id[number] for number in removed_one_by_one(log, uses, many)}
        kept = {number for number in whole.log_id if number not in gone}
        assert moved.keys() == kept | set(whole.special_ids.values())
        for old in kept:
            assert whole.content(whole.log_id[old]) == model.content(model.log_id[moved[old]])
        assert {moved[old] for old in whole.special_ids.values()} == set(model.special_ids.values())
        holes, same = prune_log(log, uses, whole.n_vocab - many, keep_ids=True)
        assert same == {old: old for old in moved}
        write_event_log(tmp_path / "holes.jsonl", holes)
        holes = read_event_log(tmp_path / "holes.jsonl")
        with_holes, tokenizer = Tokenizer(holes), Tokenizer(small)
        assert [moved[number] for number in with_holes.encode(TEXT)] == tokenizer.encode(TEXT)
        assert with_holes.n_vocab == whole.n_vocab
        renumbered, _ = prune_log(holes, uses, whole.n_vocab - many)
        assert renumbered.events == small.events
        assert Model(renumbered).model_id == Model(small).model_id


def test_the_command(run, tmp_path):
    """From what RUN has counted, or from a text; the map and the message."""
    small, small_map = tmp_path / "small.events.jsonl", tmp_path / "map.json"
    done = cli("prune", run, "--to", "400", "-o", small, "--map", small_map, "--progress", "none")
    assert f"{small}: 400 ids, 500 before. Bytes per token: " in done.stderr
    tokenizer, whole = Tokenizer(small), Tokenizer(run)
    for old, new in json.loads(small_map.read_text(encoding="utf-8")).items():
        assert whole.decode_bytes([int(old)]) == tokenizer.decode_bytes([new])
    cli("prune", run, "--to", "400", "-o", tmp_path / "again.events.jsonl", "--map", tmp_path / "map.npz")
    arrays = np.load(tmp_path / "map.npz")
    moved = {str(old): new for old, new in zip(arrays["old"].tolist(), arrays["new"].tolist(), strict=True)}
    assert moved == json.loads(small_map.read_text(encoding="utf-8"))
    said = [float(number) for number in done.stderr.rsplit("token: ", 1)[1].split(" -> ")]
    ids = [len(one.encode_ordinary(TEXT)) for one in (whole, tokenizer)]
    assert said == [round(len(TEXT.encode()) / number, 3) for number in ids]
    cli("prune", run, "--to", "400", "--keep-ids", "-o", tmp_path / "d.events.jsonl")
    cli("export", tmp_path / "d.events.jsonl", "--to", "hf", "-o", tmp_path / "hf.json", "--no-compare")
    with_holes = Tokenizer(tmp_path / "d.events.jsonl")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "hf.json"))
    assert theirs.encode(TEXT, add_special_tokens=False).ids == with_holes.encode(TEXT)
    assert theirs.decode(with_holes.encode(TEXT)) == TEXT
    smaller = ("export", tmp_path / "d.events.jsonl", "--to", "events", "--vocab-size", "399", "-o", tmp_path / "e")
    assert "prune it to fewer" in cli(*smaller, expect=2).stderr
    new, empty = tmp_path / "new.jsonl", written(tmp_path / "empty.txt", "")
    for model, more, told in (
        (run, ["--map", new], "both name"),
        (run, ["--text", empty], "there is no text"),
        (run, ["--text", "-"], "read only once"),
        (run, ["--to", 258], "from 259 to 500"),
        (run, ["--to", 501], "from 259 to 500"),
        (small, [], "is not in a RUN"),
    ):
        assert told in cli("prune", model, "--to", "300", "-o", new, *more, expect=2).stderr
        assert not new.exists()


@pytest.mark.parametrize("kind", ["plain", "stops", "boundless", "superbpe", "uw"])
@pytest.mark.parametrize("keep_ids", [False, True])
def test_every_kind_of_model(kind, keep_ids):
    """Superwords, stop words, unknown characters, SCRIPT's symbols: down to what was not learned, and half way; what
    is left encodes as the slow replay says and gives the text back."""
    log = trained(kind)
    whole = Tokenizer(log)
    least = whole.n_vocab - len({event.id for event in log.events})
    for size in (least, (least + whole.n_vocab) // 2):
        small, moved = prune_log(log, {}, size, keep_ids=keep_ids)
        tokenizer = Tokenizer(small)
        assert tokenizer.n_vocab - small.header.config.get("holes", 0) == size
        assert all(old == new for old, new in moved.items()) or not keep_ids
        for text in DOCUMENTS[:4]:
            ids = tokenizer.encode_ordinary(text)
            assert tokenizer.decode(ids) == whole.decode(whole.encode_ordinary(text))
            assert set(ids) <= set(moved.values())
            assert ids == replayed(tokenizer, text)


def residues_one_by_one(log: EventLog, counts: dict[str, int], share: Fraction) -> list[Event]:
    """The slow way: look at one token after the other, the last one first, and encode everything again each time."""

    def uses(events: Sequence[Event]) -> Counter[int]:
        return uses_by_replaying(EventLog(log.header, tuple(events)), counts)

    made = Counter()
    for at, event in enumerate(log.events):  # each place where it is made is one token less
        made[event.id] += uses(log.events[:at]).total() - uses(log.events[: at + 1]).total()
    ends: list[Event] = []
    for number in sorted(made, reverse=True):
        left = uses([*log.events, *ends])[number]
        if left < share * made[number]:
            ends.append(delete_event(number, next(event.pair for event in log.events if event.id == number), left))
    return ends


@pytest.mark.long
def test_residues_are_taken_back_at_the_end():
    """Equal to taking one after the other; the rest keeps its order, and encodes as the slow replay says."""
    for seed in seeds(1600):
        odd, rng = random_log(seed, supers=False), random.Random(seed)
        log = EventLog(odd.header, tuple(event for event in odd.events if event.op is Op.MERGE))
        sizes = [rng.choice([1, 2, 3, 8, 20, 90]) for _ in range(8)]
        counts = dict(Counter("".join(rng.choices("abc. ", k=size)) for size in sizes))
        encoder = Encoder(log)
        grown = GrownUses(encoder)
        grown.add(pl.DataFrame(list(counts.items()), schema={"chunk": pl.String, "n": pl.Int64}, orient="row"))
        numbers = dict(enumerate(grown.uses(len(log.events)).tolist())), dict(enumerate(grown.made_of_ids().tolist()))
        share = Fraction(rng.randint(1, 19), 20)
        small, moved = without_residues(log, *numbers, share)
        ends = residues_one_by_one(log, counts, share)
        assert list(small.events) == [*log.events, *ends]
        whole, model = Model(log), Model(small)
        gone = {whole.model_id[event.id] for event in ends}
        assert moved == {old: new for new, old in enumerate(n for n in sorted(whole.log_id) if n not in gone)}
        for chunk in counts:
            slow = encode_chunk(model, chunk.encode())
            assert Encoder(small).encode_chunk(chunk) == slow
            assert not {event.id for event in ends} & {*slow}


def test_residues_by_the_commands(run, tmp_path):
    """As many leave as `evaluate` counts, or fewer: what leaves is used as its parts."""
    small, text = tmp_path / "small.events.jsonl", run.parent / "a.txt"
    command = ("prune", run, "-o", small, "--text", text, "--residues")
    (before,) = json.loads(cli("evaluate", run, "--text", text, "--residues", "30%", "--json").stdout)
    told = json.loads(cli(*command, "30%", "--map", tmp_path / "map.json", "--json").stdout)
    assert 0 < 500 - told["ids"] <= before["residues"]
    assert told["bytes_per_token_before"] == before["bytes_per_token"] > told["bytes_per_token"]
    moved, whole, tokenizer = json.loads((tmp_path / "map.json").read_text()), Tokenizer(run), Tokenizer(small)
    assert len(moved) == 498 - (500 - told["ids"])  # beside the two reserved ids
    assert all(whole.decode_bytes([int(old)]) == tokenizer.decode_bytes([new]) for old, new in moved.items())
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    picky = tmp_path / "picky.jsonl"
    write_event_log(picky, trained("picky"))
    for refused, *told in (
        (("prune", run), "give one of them"),
        (("prune", run, "--residues", "2"), "a share between 0 and 1"),
        (("prune", run, "--residues", "5%", "--keep-ids"), "--keep-ids is for --to"),
        (("prune", picky, "--residues", "1%"), "learned with --tau"),
        (("prune", small, "--to", "300"), "made by `prune --residues`"),
        (("evaluate", picky, "--fewest", "--residues", "1%"), "--residues: ", "has superwords or deleted tokens"),
    ):
        more = () if refused[0] == "evaluate" else ("-o", tmp_path / "again.jsonl")
        said = cli(*refused, *more, "--text", text, expect=2).stderr
        assert all(one in said for one in told), said
