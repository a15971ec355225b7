"""Groups of sources: counts kept apart, weights applied exactly, and neither changes with how it was done."""

from __future__ import annotations

import contextlib
import functools
import json
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from streambpe.config import parse_weights
from streambpe.errors import ResumeMismatch, StreambpeError, UsageError
from streambpe.model.eventlog import Op
from streambpe.resources import Resources
from streambpe.store.database import open_store, use_private_training
from streambpe.store.exchange import merge_counts
from streambpe.store.groups import GroupRules, read_groups
from streambpe.store.merge import merged_lists
from streambpe.store.parts import list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.weights import temper, weigh_groups
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import resume, train
from streambpe.train.counting import todo
from streambpe.train.counting.count import count, count_from_iterator
from tests.hostile import random_text
from tests.oracles.splits import split_text
from tests.oracles.tables import check
from tests.runs import SMALL, by_keyword, change, log_of, plain_events, rows
from tests.tiers import seeds, share

SPLIT = functools.partial(split_text, find_pattern("gpt4o"))


def corpus(folder: Path, seed: int = 1) -> dict[str, Counter[str]]:
    """Files in folders de, en, fr; the chunk counts of each folder."""
    rng = random.Random(seed)
    expected = {}
    words = [random_text(rng, 5) for _ in range(60)]
    for group in ("de", "en", "fr"):
        (folder / group).mkdir(parents=True)
        texts = []
        for i in range(3):
            text = " ".join(rng.choices(words, k=rng.choice([3, 300]))).replace("\ufeff", "").replace("\r", "")
            (folder / group / f"{i}.txt").write_text(text, encoding="utf-8", newline="")
            texts.append(text)
        expected[group] = Counter(chunk for text in texts for chunk in SPLIT(text))
    return expected


@pytest.fixture
def grouped(tmp_path) -> tuple[Path, dict[str, Counter[str]]]:
    """A run over these files with a group for each folder, and their counts."""
    expected = corpus(tmp_path / "in")
    count(tmp_path / "run", [str(tmp_path / "in")], group_by="folder", resources=SMALL)
    return tmp_path / "run", expected


def groups_of(run: Path) -> dict[str, str]:
    """The group of every counted source, by its path; "" for none."""
    return {span.path: span.group_name for part in list_parts(Run(run)) for span in part.spans}


def group_tables(run: Path) -> dict[str, dict[str, int]]:
    """What the parts of each group add up to."""
    return {
        name: {chunk: n for rows in merged_lists(parts, 1 << 20) for chunk, n in rows.frame().iter_rows()}
        for name, parts in parts_by_group(list_parts(Run(run))).items()
    }


def total(run: Path) -> dict[str, int]:
    return dict(rows(run, "SELECT chunk, n FROM chunk_counts"))


def weighted(groups: dict[str, dict[str, int]], weights: dict[str, Fraction]) -> dict[str, int]:
    """Largest remainder, by fractions and a sort."""
    exact: dict[str, Fraction] = {}
    for name, table in groups.items():
        for chunk, n in table.items():
            exact[chunk] = exact.get(chunk, Fraction(0)) + weights.get(name, Fraction(1)) * n
    whole = {chunk: value.numerator // value.denominator for chunk, value in exact.items()}
    seats = int(sum(exact.values()) + Fraction(1, 2)) - sum(whole.values())
    for chunk in sorted(exact, key=lambda c: (whole[c] - exact[c], c.encode()))[:seats]:
        whole[chunk] += 1
    return {chunk: n for chunk, n in whole.items() if n}


def run_of_groups(folder: Path, groups: dict[str, dict[str, int]]) -> Run:
    """A run with these counts."""
    folder.mkdir()
    for name, table in groups.items():
        rows = "".join(f"{chunk},{n}\n" for chunk, n in table.items())
        (folder / f"{name}.csv").write_text("chunk,count\n" + rows, encoding="utf-8")
    named = [f"{name}={name}.csv" for name in groups]
    count(folder / "run", [str(path) for path in folder.glob("*.csv")], counts=True, group=named, resources=SMALL)
    return Run(folder / "run")


def weighed_rows(run: Run, weights: dict[str, str]) -> list[tuple[str, int]]:
    """What a training with these weights learns from."""
    with contextlib.closing(open_store(run.state, read_only=True)) as con:
        use_private_training(con)
        if weights:
            weigh_groups(con, weights, 100)
        return con.sql("FROM weighed_chunks ORDER BY chunk").fetchall()


# ------------------------------------------------------------------ naming


BOTH = (["code=*.py.txt", "all=de"], "folder")


@pytest.mark.parametrize(
    ("path", "group", "rules"),
    [
        ("/c/de/a.txt", "x", (["x=de"],)),
        ("/c/corpus/de/a.txt", "x", (["x=./corpus/de/*.txt"],)),
        ("/c/de/a.txt", "x", (["x=/c/de"],)),
        ("/c/de/a.txt", "", (["x=/de"],)),
        ("/c/de/a.txt", "", (["x=e"],)),
        ("/c/de/a.txt", "x", (["x=[ab].txt"],)),
        ("stream", "x", (["x=stream"],)),
        ("/c/de/a.py.txt", "code", BOTH),
        ("/c/de/a.txt", "all", BOTH),
        ("/c/en/a.txt", "en", BOTH),
        ("stdin", "", BOTH),
    ],
)
def test_rules(path, group, rules):
    """Globs are absolute or from any folder on; a folder takes all below it. The first rule wins, --group before
    --group-by."""
    assert GroupRules.from_options(*rules).group_of(path) == group


# ------------------------------------------------------------------ counting


@pytest.mark.long
def test_counts_of_groups(tmp_path, tiny_blocks):
    """Each group's counts are those of its files, the total is that of a run without groups; in any order, by any
    options."""
    expected = corpus(tmp_path / "in")
    run, plain, later = tmp_path / "run", tmp_path / "plain", tmp_path / "later"
    result = count(run, [str(tmp_path / "in")], group_by="folder", resources=Resources(256 << 20, 3))
    assert count(plain, [str(tmp_path / "in")], resources=SMALL).corpus == result.corpus
    for group in ("fr", "de", "en"):
        for path in sorted((tmp_path / "in" / group).iterdir(), reverse=True):
            count(later, [str(path)], group=[f"{group}={tmp_path}/in/{group}"], resources=Resources(256 << 20, 1))
    for counted in (run, later):
        assert group_tables(counted) == expected
        assert total(counted) == sum(expected.values(), Counter())
        assert groups_of(counted) == {str(p.resolve()): p.parent.name for p in (tmp_path / "in").rglob("*.txt")}
        found = rows(counted, 'SELECT group_name, documents, chunks, "distinct" FROM source_groups ORDER BY 1')
        assert found == [(name, 3, n.total(), len(n)) for name, n in sorted(expected.items())]
        assert {part.group_name for part in list_parts(Run(counted))} == set(expected)
    assert rows(plain, "FROM source_groups") == []
    again = count(run, [str(tmp_path / "in")], resources=SMALL)  # no group option: they keep theirs
    assert (again.counted, again.skipped) == (0, 9)
    with pytest.raises(UsageError, match="source group 'de', not 'all'"):
        count(run, [str(tmp_path / "in")], group=["all=*"], resources=SMALL)
    (tmp_path / "more.txt").write_text("more text")
    count(run, [str(tmp_path / "more.txt")], resources=SMALL)
    assert groups_of(run)[str(tmp_path / "more.txt")] == ""
    assert group_tables(run)[""] == {"more": 1, " text": 1}
    count_from_iterator(run, ["ab cd"], source_name="mine", group=["made=mine"], resources=SMALL)
    assert group_tables(run)["made"] == {"ab": 1, " cd": 1}
    assert check(run, resources=SMALL, sources=True) == []


@pytest.mark.long
def test_a_group_without_sources_and_too_many_groups(tmp_path, monkeypatch):
    """A warning; a refusal that leaves the run as it was."""
    corpus(tmp_path / "in")
    result = count(tmp_path / "run", [str(tmp_path / "in")], group=["es=in/es", "de=in/de"], resources=SMALL)
    assert result.warnings == ("--group es: no source is in it.",)
    monkeypatch.setattr(todo, "MOST_GROUPS", 2)
    with pytest.raises(UsageError, match="3 source groups"):
        count(tmp_path / "other", [str(tmp_path / "in")], group_by="folder", resources=SMALL)


def test_check_finds_a_changed_group(grouped):
    """A row changed, lost or made up in source_groups is named."""
    run, _ = grouped
    change(
        run,
        "UPDATE source_groups SET chunks = chunks + 1 WHERE group_name = 'de'",
        "DELETE FROM source_groups WHERE group_name = 'en'",
        "INSERT INTO source_groups VALUES ('xx', 0, 0, 0, 0, '')",
        "UPDATE sources SET group_name = 'de' WHERE group_name = 'fr'",
    )
    problems = check(run, resources=SMALL)
    assert {p.what[0] for p in problems if p.table == "source_groups"} == {"de", "en", "xx"}
    assert sum(p.table == "sources" for p in problems) == 6
    count(run, [], resources=SMALL)
    assert check(run, resources=SMALL) == []


def test_merged_runs_keep_their_groups(tmp_path):
    """Group by group."""
    expected = corpus(tmp_path / "in")
    for group in ("de", "en", "fr"):
        count(tmp_path / group, [str(tmp_path / "in" / group)], group_by="folder", resources=SMALL)
    merge_counts(tmp_path / "two", [tmp_path / "de", tmp_path / "en"], resources=SMALL)
    merge_counts(tmp_path / "all", [tmp_path / "two", tmp_path / "fr"], resources=SMALL)
    assert group_tables(tmp_path / "all") == expected
    assert check(tmp_path / "all", resources=SMALL) == []


@pytest.mark.long
def test_superwords_with_groups(tmp_path):
    """The log is that of a run without groups."""
    corpus(tmp_path / "in")
    options = {"superwords": "boundless", "pattern": "gpt4", "vocab_size": 400, "resources": SMALL}
    for name, group_by in (("run", "folder"), ("plain", None)):
        train(tmp_path / name, [str(tmp_path / "in")], group_by=group_by, **options)
    assert any(event.op is Op.SUPERMERGE for event in log_of(tmp_path / "run").events)
    assert log_of(tmp_path / "run") == log_of(tmp_path / "plain")
    assert check(tmp_path / "run", resources=SMALL) == []


# ------------------------------------------------------------------ weights


@pytest.mark.parametrize(
    ("given", "shown"),
    [("2.0", "2"), ("0.50", "0.5"), ("007", "7"), ("0", "0"), ("-0", "0"), ("1000000", "1000000"), ("1e3", "1000")],
)
def test_weights_are_read(given, shown):
    """In their shortest decimal form, by name."""
    assert parse_weights([f"b={given}", "a=b=1"]) == {"a=b": "1", "b": shown}


def test_weighted_counts_are_those_of_exact_fractions(tmp_path):
    """The streamed integers against fractions and a sort; ties by the chunks' bytes. Products pass 2^63 on the way; a
    sum that does is refused."""
    for seed in seeds(48):
        rng, tables = random.Random(seed), []
        for _ in range(rng.randint(1, 4)):
            chunks = rng.sample(["a", "b", "ab", "\u00e9", "\U0001f600", "a\u00e9"], rng.randint(1, 6))
            tables.append({chunk: rng.randint(1, rng.choice([9, 9, 2**40, 2**57])) for chunk in chunks})
        groups = {f"g{i}": table for i, table in enumerate(tables)}
        numbers = ["0", "1", "0.5", "0.1", "0.333333", "2.5", "0.000001", "12.34", "1.000001"]
        weights = parse_weights([f"{name}={rng.choice(numbers)}" for name in list(groups)[: rng.randint(1, 4)]])
        run = run_of_groups(tmp_path / str(seed), groups)
        if expected := weighted(groups, {name: Fraction(number) for name, number in weights.items()}):
            assert weighed_rows(run, weights) == sorted(expected.items(), key=lambda row: row[0].encode())
        else:
            with pytest.raises(UsageError, match="nothing is left"):
                weighed_rows(run, weights)
    with pytest.raises(StreambpeError, match="more than a 64-bit count"):
        weighed_rows(run_of_groups(tmp_path / "more", {"x": {"a": 2**61, "b": 3}}), {"x": "4"})


@pytest.mark.long
def test_learning_with_weights(grouped):
    """The log says which weights, which groups, and the tables what was left out for them; check recounts it all."""
    run, expected = grouped
    options = {"vocab_size": 340, "stop_list": 30, "freq_cutoff": 2, "block_tokens": [" t"]}
    train(run, resources=SMALL, weight=["de=2.5", "fr=0"], **by_keyword(options))
    by_hand = weighted(expected, {"de": Fraction(5, 2), "fr": Fraction(0)})
    header = log_of(run).header
    assert header.config["weights"] == {"de": "2.5", "fr": "0"}
    assert header.corpus["groups"]["de"]["chunks"] == expected["de"].total()
    assert check(run, resources=SMALL) == []
    kept = {chunk: n for chunk, n in by_hand.items() if n}
    assert dict(rows(run, "FROM weighted_counts")) == kept
    left_out = {chunk: (kept.get(chunk, 0), "weight" if chunk not in kept else "cut-off")
                for chunk in total(run) if kept.get(chunk, 0) < 2}  # fmt: skip
    left_out |= {word.content.decode(): (kept[word.content.decode()], "stop list") for word in header.stop_words}
    assert {reason for _, reason in left_out.values()} == {"weight", "cut-off", "stop list"}
    assert {chunk: (n, why) for chunk, n, why in rows(run, "SELECT chunk, n, reason FROM left_out")} == left_out
    assert dict(rows(run, "SELECT chunk, n FROM single_token_chunks")).items() <= kept.items()


@pytest.mark.long
def test_a_group_without_text_is_a_group(tmp_path):
    """It adds up, weighs nothing, and may get text later."""
    for name, text in (("a", "some words and some more"), ("b", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jsonl").write_text(json.dumps({"text": text}) + "\n")
    run, places = tmp_path / "run", [str(tmp_path / "a"), str(tmp_path / "b")]
    count(run, places, group_by="folder", resources=SMALL)
    assert check(run, resources=SMALL) == []
    assert {name: facts["chunks"] for name, facts in read_groups(Run(run)).items()} == {"a": 5, "b": 0}
    weights = train(run, vocab_size=262, alpha="0.5", resources=SMALL).weights
    assert weights == {"a": "1", "b": "1"}
    (tmp_path / "b" / "2.jsonl").write_text(json.dumps({"text": "words"}) + "\n")
    count(run, places, group_by="folder", resources=SMALL)
    assert {name: facts["chunks"] for name, facts in read_groups(Run(run)).items()} == {"a": 5, "b": 1}
    assert check(run, resources=SMALL) == []


def nearest_millionth(largest: int, size: int, alpha: Fraction) -> Fraction:
    """(largest / size) to the power of 1 - alpha, by whole numbers only; of two that are as near, the even one."""
    q, up = alpha.denominator, alpha.denominator - alpha.numerator

    def at_most(halves: int) -> int:  # whether so many halves of a millionth are below, at or above it
        one, other = halves**q * size**up, largest**up * (2 * 10**6) ** q
        return (one > other) - (one < other)

    low, high = 0, 2 * 10**6 * -(-largest // size) + 1  # find the last half that is not above
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if at_most(middle) <= 0 else (low, middle - 1)
    whole, half = divmod(low, 2)
    if half and (at_most(low) < 0 or whole % 2):
        whole += 1
    return Fraction(whole, 10**6)


@pytest.mark.parametrize("alpha", ["0", "0.3", "0.5", "0.75", "0.9", "1", "0.07", "0.999"])
def test_alpha_is_the_power_of_shares(alpha):
    """Weights as a search by whole numbers finds them, also where two decimals are as near."""
    rng = random.Random(int(Fraction(alpha) * 1000))
    sizes = [(2 * 10**6 + odd) ** power for odd in range(6) for power in (1, 2)]
    for _ in range(share(500)):
        many = rng.choice([1, 10**3, 10**6, 10**12])
        drawn = [rng.randint(many, many * 10**5) for _ in range(3)] + rng.sample(sizes, rng.choice([0, 2]))
        groups = {f"g{i}": size for i, size in enumerate(drawn)} | {"empty": 0}
        try:
            found = temper(groups, alpha)
        except UsageError:
            assert any(nearest_millionth(max(drawn), size, Fraction(alpha)) > 10**6 for size in drawn)
            continue
        assert found.pop("empty") == "1"
        assert {name: Fraction(number) for name, number in found.items()} == {
            name: nearest_millionth(max(drawn), groups[name], Fraction(alpha)) for name in found
        }


@pytest.mark.long
def test_alpha_needs_groups_that_compare(tmp_path):
    """Sources in no group, one group, and one that is too small."""
    (tmp_path / "a.txt").write_text("a b " * 10**6)
    (tmp_path / "b.txt").write_text("b")
    for groups, why in ((["a=a.txt"], "other sources are in no group|groups; .* has a"), (["a=*"], "run has a")):
        with pytest.raises(UsageError, match=why):
            train(tmp_path / "run", [str(tmp_path)], group=groups, alpha=0, vocab_size=300, resources=SMALL)
    with pytest.raises(UsageError, match="source group 'b' would be 4000000, and"):
        train(tmp_path / "run", [str(tmp_path)], group=["a=a.txt", "b=b.txt"], alpha=0, vocab_size=300, resources=SMALL)


@pytest.mark.long
def test_weights_do_not_change_and_are_resumed(tmp_path):
    """Another weight is another training; resume, a larger size and a call without weights keep them."""
    corpus(tmp_path / "in")
    run = tmp_path / "run"
    source = [str(tmp_path / "in")]
    train(run, source, counting={"group_by": "folder"}, resources=SMALL, vocab_size=300, weight=["de=3"])
    with pytest.raises(ResumeMismatch, match="weights"):
        train(run, resources=SMALL, vocab_size=300, weight=["de=4"])
    assert train(run, resources=SMALL, vocab_size=300).skipped  # what is not given is taken over
    train(run, source, counting={"group_by": "folder"}, resources=SMALL, vocab_size=330, weight=["de=3.0"])
    assert resume(run, resources=SMALL).skipped
    train(run, resources=SMALL, vocab_size=330, weight=["de=3"], name="once")
    assert plain_events(run) == plain_events(run, "once")
    assert check(run, resources=SMALL) == []
