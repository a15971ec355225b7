"""--balance: the group that is compressed worst chooses the next merge."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from streambpe.config import TrainConfig
from streambpe.errors import LimitError, ResumeMismatch, RunError, SourceError, Stopped, UsageError
from streambpe.inspect.converge import converge
from streambpe.model.alphabet import gpt2_alphabet
from streambpe.model.events import Events
from streambpe.model.replay import merge
from streambpe.resources import Resources
from streambpe.store.groups import read_groups
from streambpe.store.job import read_jobs
from streambpe.store.merge import merged_lists
from streambpe.store.parts import list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.train.balancing import BY_BYTES, refuse_groups
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count
from streambpe.train.engine import balanced
from streambpe.train.engine.balanced import Balance, BalancedEngine, Choices, Group
from streambpe.train.engine.rules import Words
from streambpe.train.engine.state import State
from tests.oracles.balanced import learn_balanced
from tests.oracles.tables import check
from tests.runs import SMALL, log_of, plain_events
from tests.samples import natural_text
from tests.sequential import as_events, engine_options, engine_words, events_of, wrong_pairs
from tests.tiers import seeds

Grouped = Mapping[str, Sequence[tuple[bytes, int]]]
BASE = [bytes([i]) for i in range(256)]


class GivenWords:
    """Words of groups, and what any events make of them."""

    def __init__(self, groups: Grouped, ratios: Mapping[str, Fraction], texts: Grouped | None) -> None:
        self.groups, self.ratios, self.texts = groups, ratios, texts

    @staticmethod
    def _after(words: Iterable[tuple[bytes, int]], events: Events) -> Words:
        found = [(list(word), n) for word, n in words]
        for event in events:
            found = [(merge(word, event.pair, event.id), n) for word, n in found]
        return engine_words(found)

    def together(self, events: Events) -> Words:
        total: Counter[bytes] = Counter()
        for words in self.groups.values():
            for word, n in words:
                total[word] += n
        return self._after(total.items(), events)

    def apart(self, events: Events) -> list[Group]:
        made = []
        for name, words in sorted(self.groups.items()):
            ratio, size = Fraction(self.ratios.get(name, 1)), sum(len(word) * n for word, n in words)
            text = self._after(self.texts[name], events) if self.texts else None
            made.append(Group(self._after(words, events), ratio if text else ratio / size, text))
        return made


def engine_of(
    groups: Grouped, more: Mapping[str, Any] = {}, known: Events | None = None, before: Choices | None = None,
    **how: Any,
) -> BalancedEngine:  # fmt: skip
    """The engine for these words, after these events."""
    words = GivenWords(groups, how.pop("ratios", None) or {}, how.pop("texts", None))
    rule = {"min_frequency": how.pop("least", 1), "max_token_length": how.pop("longest", None)}
    rule |= {"overlaps": how.pop("overlaps", "all"), "ties": "bytes" if how.pop("of_ties", None) else "ids"}
    options = engine_options(**rule, **{"memory_bytes": 64 << 20, **more})
    return BalancedEngine(words, State(BASE, options, 256), known or Events(), Balance(**how), before)


def learned(engine: BalancedEngine, tokens: int) -> list[tuple[int, int, int, int]]:
    """(left, right, id, n) of each merge."""
    return events_of(list(engine.batches(tokens)))


def drawn(rng: random.Random) -> dict[str, list[tuple[bytes, int]]]:
    """Groups of words with many ties, runs of one letter, words of one letter."""
    groups = {}
    for name in "abcde"[: rng.randint(2, 5)]:
        letters = rng.choice([b"a", b"ab", b"abc", b"bcde", "é漢".encode()])
        words = (bytes(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(rng.randint(1, 12)))
        groups[name] = list({word: rng.randint(1, 20) for word in words}.items())
    return groups


def lowest(pairs: Iterable[tuple[int, int]], spelled: Mapping[int, bytes]) -> tuple[int, int]:
    """What ties go to by bytes."""
    return min(pairs, key=lambda pair: (spelled[pair[0]], spelled[pair[1]]))


def highest(pairs: Iterable[tuple[int, int]], spelled: Mapping[int, bytes]) -> tuple[int, int]:
    """What ties go to in tokenizers."""
    return max(pairs, key=lambda pair: (spelled[pair[0]], spelled[pair[1]]))


def test_equals_the_slow_loop_and_is_replayed():
    """Random words, ratios, texts, windows, starts; it goes on the same from any event, with other memory, threads and
    batches, from disk, and pair counts are exact."""
    for seed in seeds(400):
        rng = random.Random(seed)
        groups = drawn(rng)
        how = {
            "start": rng.choice([0, 0, 3, 10]), "window": rng.choice([None, None, 2, 5]),
            "alpha": Fraction(rng.choice(["1", "2", "1.5", "0.5"])), "least": rng.choice([1, 1, 4]),
            "ratios": {name: Fraction(rng.randint(1, 5), 2) for name in groups} if rng.random() < 0.5 else None,
            "overlaps": rng.choice(["all", "disjoint"]), "longest": rng.choice([None, None, 4]),
            **rng.choice([{}, {"of_ties": lowest}]),
        }  # fmt: skip
        if rng.random() < 0.4:  # words that are in no group too
            how["texts"] = {name: [*rng.sample(groups[name], 1), (b"xyz"[: rng.randint(1, 3)], 2)] for name in groups}
        tokens = rng.randint(1, 60)
        engine = engine_of(groups, **how)
        found = learned(engine, tokens)
        assert [((a, b), i, n) for a, b, i, n in found] == learn_balanced(groups, tokens, **how), seed
        assert wrong_pairs(engine) == [], seed
        cut = rng.randint(0, len(found))
        more = {
            "threads": rng.randint(1, 2), "batch": rng.choice(["exact", "1"]), "force_scan": rng.random() < 0.7,
            "index_below": rng.choice([0, 0, 20]), "block_places": rng.choice([None, 8]),
            "digest_tokens": rng.choice([None, 0, 6, 20]), "hot_pairs": rng.choice([None, None, 2]),
        }  # fmt: skip
        again = engine_of(groups, {**more, "memory_bytes": rng.choice([24, 90]) << 20}, **how)
        again.relearn(as_events(found[:cut]))
        choices = again.choices()
        assert found[:cut] + learned(again, tokens - again.learned) == found, seed
        resumed = engine_of(groups, more, Events.of(as_events(found[:cut])), choices, **how)
        assert found[:cut] + learned(resumed, tokens - resumed.learned) == found, seed


def test_no_room_in_the_middle_of_a_merge(monkeypatch):
    """The words are made again, and learning goes on from disk."""
    monkeypatch.setattr(balanced, "_BYTES_PER_PLACE", 10)
    monkeypatch.setattr(balanced, "_LEAST_BYTES", 1 << 16)
    groups = {}
    for name in "ab":
        rng = random.Random(name)
        groups[name] = [(bytes(rng.choices(range(60), k=40)), 1) for _ in range(3000)]
    wanted = learned(engine_of(groups), 20)
    batches = list(engine_of(groups, {"memory_bytes": 6 << 20}).batches(20))
    assert events_of(batches) == wanted
    assert {batch.record.mode for batch in batches} == {"index", "scan"}


# ---------------------------------------------------------------------------------------------------------
# trainings


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """Three groups, of different sizes and letters."""
    folder = tmp_path_factory.mktemp("groups")
    (folder / "en.txt").write_text(natural_text(0, 40_000))
    (folder / "greek.txt").write_text(natural_text(1, 9_000).translate({97 + i: 0x3B1 + i for i in range(24)}))
    (folder / "han.txt").write_text(natural_text(2, 4_000).translate({97 + i: 0x4E00 + i * i for i in range(26)}))
    return folder


@pytest.fixture(scope="module")
def counted(sources, tmp_path_factory) -> Path:
    """A run with a group for each file."""
    run = tmp_path_factory.mktemp("run") / "run"
    groups = [f"{name}={sources / name}.txt" for name in ("en", "greek", "han")]
    count(run, [str(sources)], group=groups, pattern="gpt4", lines=True, resources=SMALL)
    return run


def words_of(run: Path) -> dict[str, list[tuple[bytes, int]]]:
    """The chunks of each group, in bytes of GPT-2's order as ids."""
    place = {symbol[0]: i for i, symbol in enumerate(gpt2_alphabet().symbols)}
    return {
        name: [
            (bytes(place[byte] for byte in chunk.encode()), n)
            for rows in merged_lists(parts, 1 << 20)
            for chunk, n in rows.frame().iter_rows()
        ]
        for name, parts in parts_by_group(list_parts(Run(run))).items()
    }


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> dict[str, str]:
    """A text for each group."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "en.txt").write_text(natural_text(3, 3_000))
    (folder / "greek.jsonl").write_text("".join(
        json.dumps({"text": line.translate({97 + i: 0x3B1 + i for i in range(24)})}) + "\n"
        for line in natural_text(3, 3_000).splitlines()
    ))  # fmt: skip
    (folder / "han.txt").write_text(natural_text(4, 1_000).translate({97 + i: 0x4E00 + i * i for i in range(26)}))
    return {path.stem: str(path) for path in folder.iterdir()}


def test_texts_are_what_groups_are_measured_on(counted, texts, tmp_path):
    """Given texts, as the slow loop has it; they are kept, so that the training grows without them."""
    how = {"balance_text": texts, "balance_ratio": {"greek": "0.5"}, "max_token_length": 3}
    train(counted, name="texts", balance=True, vocab_size=270, resources=SMALL, **how)
    header = log_of(counted, "texts").header
    assert header.config["balanced_on"].keys() == texts.keys()
    run = tmp_path / "texts"
    count(run, [*texts.values()], group=[f"{name}={path}" for name, path in texts.items()], pattern="gpt4", lines=True,
          resources=SMALL)  # fmt: skip
    assert header.config["balanced_on"] == {name: facts["sha256"] for name, facts in read_groups(Run(run)).items()}
    wanted = learn_balanced(words_of(counted), 20, ratios={"greek": Fraction(1, 2)}, texts=words_of(run), longest=3)
    assert plain_events(counted, "texts") == [(*pair, number, n) for pair, number, n in wanted][:14]
    assert "--balance-text GROUP=FILE" in (counted / "texts.train.toml").read_text()
    assert check(counted, resources=SMALL) == []  # pairs that are too long are not listed
    train(counted, name="texts", vocab_size=276, resources=SMALL)
    assert plain_events(counted, "texts") == [(*pair, number, n) for pair, number, n in wanted]
    before = {path: path.read_bytes() for path in counted.rglob("*") if path.is_file()}
    with pytest.raises(ResumeMismatch, match="was started with other texts of --balance-text"):
        train(counted, name="texts", balance_text={**texts, "en": texts["han"], "han": texts["en"]}, resources=SMALL)
    files = sorted((counted / "balance").iterdir())
    assert len(files) == 3
    files[0].rename(tmp_path / "away")
    with pytest.raises(RunError, match="counts of a text of --balance-text, is lost"):
        train(counted, name="texts", vocab_size=280, resources=SMALL)
    assert train(counted, name="texts", vocab_size=280, resources=SMALL, **how).size == 280
    assert {path: before[path] for path in files} == {path: path.read_bytes() for path in files}


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["en=NOFILE"], "cannot be read"),
        (["en"], "--balance-text en: write GROUP=FILE"),
        (["en=-"], "standard input"),
        (["en=en", "greek=en"], "is given for both en and greek"),
        (["en=en", "greek=greek"], "'han' has no text"),
        (["en=en", "greek=greek", "han=han", "xx=EMPTY"], "--balance-text xx=.*no text in it"),
        (["en=EMPTY"], "--balance-text en=.*empty.txt: there is no text in it"),
        (["en=en", "greek=greek", "xx=han"], "'xx' is not a source group"),
    ],
)
def test_texts_that_are_refused(counted, texts, tmp_path, given, told):
    """Nothing is left of them."""
    (tmp_path / "empty.txt").write_text("")
    paths = {**texts, "NOFILE": str(tmp_path / "no"), "EMPTY": str(tmp_path / "empty.txt")}
    given = [f"{name}={paths.get(file, file)}" if file else name for name, _, file in (g.partition("=") for g in given)]
    before = sorted((counted / "balance").glob("*"))
    with pytest.raises((UsageError, SourceError), match=told):
        train(counted, name="refused", balance=True, balance_text=given, vocab_size=300, resources=SMALL)
    assert sorted((counted / "balance").glob("*")) == before
    assert "refused" not in read_jobs(Run(counted)).trainings


@pytest.mark.parametrize("size", [250_000, 600_000])
def test_too_little_memory_for_so_many_tokens(counted, size):
    """Each group keeps all of them, and its words are encoded with them. What is asked for is then enough."""
    with pytest.raises(LimitError, match=rf"3 groups and --vocab-size {size} takes \d+ MB.*Give --memory") as told:
        train(counted, name="large", balance=True, vocab_size=size, resources=SMALL)
    assert "large" not in read_jobs(Run(counted)).trainings
    least = Resources.from_options(memory=str(told.value).rsplit(" ", 1)[-1].rstrip("."))
    config = TrainConfig.from_options(balance=True, vocab_size=size)
    refuse_groups(counted, ["en", "greek", "han"], config, least)


@pytest.mark.long
def test_stopped_grown_and_in_any_order(counted, tmp_path, sources, monkeypatch):
    """The same log, byte for byte."""
    options = {"balance": True, "balance_window": 10}
    trained = train(counted, name="whole", vocab_size=600, resources=SMALL, **options)
    assert trained.warnings == (BY_BYTES,)
    whole = trained.log.read_bytes()
    stop = threading.Event()

    def stop_soon(batch: Any) -> None:
        stop.set()

    monkeypatch.setattr(balanced, "_BATCH_SECONDS", 0.0)  # a merge at a time
    with pytest.raises(Stopped):
        train(counted, name="cut", vocab_size=600, resources=SMALL, stop=stop, on_batch=stop_soon, **options)
    assert resume(counted, name="cut", resources=Resources(500 * 10**6, 1)).log.read_bytes() == whole
    train(counted, name="grown", vocab_size=400, resources=SMALL, **options)
    assert train(counted, name="grown", vocab_size=600, resources=SMALL).log.read_bytes() == whole
    with pytest.raises(ResumeMismatch, match="was started with --balance, not without it"):
        train(counted, name="grown", vocab_size=700, balance=False, resources=SMALL)
    other = tmp_path / "other"
    for name in ("han", "en", "greek"):
        path = str(sources / f"{name}.txt")
        count(other, [path], group=[f"{name}={path}"], pattern="gpt4", lines=True, resources=Resources(400 * 10**6, 1))
    assert train(other, vocab_size=600, resources=SMALL, **options).log.read_bytes() == whole


def lines_of(groups: Grouped) -> list[Iterator[str]]:
    """The words of each group as its trainer takes them."""
    return [iter([" ".join([word.decode()] * n) for word, n in words]) for words in groups.values()]


def test_the_slow_loop_equals_tokenizers():
    """ParityBpeTrainer with ratios or texts, on words with many ties, which it gives to the highest spelling."""
    trainers = pytest.importorskip("tokenizers.trainers")
    if not hasattr(trainers, "ParityBpeTrainer"):
        pytest.skip("tokenizers has no ParityBpeTrainer")
    from tokenizers import Tokenizer, models, pre_tokenizers

    for seed in seeds(300):
        rng = random.Random(seed)
        groups = {
            name: list({bytes(rng.choices(part, k=rng.randint(1, 9))): rng.randint(1, 20) for _ in range(9)}.items())
            for name, part in zip("abc", rng.choices([b"a", b"ab", b"bcd", b"wxyz"], k=rng.randint(2, 3)), strict=False)
        }
        ratios: dict[str, Fraction] | None = {name: Fraction(rng.choice([1, 2, 4]), 2) for name in groups}
        given = None
        if rng.random() < 0.5:  # tokenizers takes one of the two
            ratios, given = None, {name: [*rng.sample(groups[name], 1), (b"xyz", 2)] for name in groups}
        window, merges = rng.choice([(None, 40), (4, 5)])  # with a window and groups without pairs it may never end
        start = rng.choice([0, 0, 2])
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.ParityBpeTrainer(
            num_merges=merges, show_progress=False, global_merges=start, variant="window" if window else "base",
            window_size=window or 1,
        )  # fmt: skip
        trainer.train_from_iterator(
            tokenizer,
            train_iterators=lines_of(groups),
            dev_iterators=lines_of(given) if given else None,
            ratio=[float(ratio) for ratio in ratios.values()] if ratios else None,
        )
        theirs = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
        spelled = {i: bytes([i]) for i in range(256)}
        mine = []
        how = {"ratios": ratios, "start": start, "window": window, "texts": given}
        found = learn_balanced(groups, merges, of_ties=highest, **how)
        for (a, b), number, _ in found[:merges]:
            spelled[number] = spelled[a] + spelled[b]
            mine.append((spelled[a].decode(), spelled[b].decode()))
        assert mine == theirs, seed


# ---------------------------------------------------------------------------------------------------------
# what is refused


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"balance_from": 5}, "--balance-from belongs to --balance"),
        ({"balance_ratios": ["en=2"]}, "--balance-ratio belongs to --balance"),
        ({"balanced_on": {"en": "0"}}, "--balance-text belongs to --balance"),
        ({"balance": True, "balanced_on": {"en": "0"}, "alphabet": "seen", "vocab_size": 900}, "seen: uncounted text"),
        ({"balance": True, "balance_alpha": 2}, "--balance-alpha belongs to --balance-window"),
        ({"balance": True, "balance_window": 9, "balance_alpha": 0}, "--balance-alpha 0: give a decimal number"),
        ({"balance": True, "balance_ratios": ["en=0"]}, "--balance-ratio en=0"),
        ({"balance": True, "balance_ratios": ["en"]}, "--balance-ratio en: write NAME=NUMBER"),
        ({"balance": True, "balance_window": 0}, "--balance-window 0: at least 1"),
    ],
)
def test_options_that_say_nothing(given, told):
    """Before anything is read."""
    with pytest.raises(UsageError, match=told):
        TrainConfig.from_options(**given)


def test_groups_that_cannot_be_balanced(counted):
    """A ratio of an unknown one, `converge`."""
    with pytest.raises(UsageError, match=r"--balance-ratio xx=2: .* has no source group 'xx'"):
        train(counted, name="x", balance=True, balance_ratio=["xx=2"], resources=SMALL)
    with pytest.raises(UsageError, match="--balance: converge learns"):
        converge(counted, balance=True, vocab_size=300, resources=SMALL)
