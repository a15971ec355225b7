"""The commands train, resume, status, sql and check around a training, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runs import change, cli
from tests.samples import natural_text, written


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("source") / "text.txt", natural_text(21, 60_000))


@pytest.fixture(scope="module")
def trained(source, tmp_path_factory) -> Path:
    """Two trainings in one run, by the command line."""
    run = tmp_path_factory.mktemp("trained") / "run"
    first = cli("train", run, source, "--vocab-size", 400, "--pattern", "gpt4")
    assert "400 ids, 144 events. sha256 " in first.stderr
    assert first.stdout == ""
    cli("train", run, "--name", "other", "--vocab-size", 300, "--ties", "bytes", "--like", "kensho")
    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vocab-size", "0"], "vocab-size"),
        (["--vocab-size", "255"], "less than the 256 ids"),
        (["--like", "gpt5"], "--like"),
        (["--ties", "first"], "--ties"),
        (["--batch", "2"], "--batch"),
        (["--batch", "paper", "--ties", "bytes"], "--batch paper"),
        (["--max-token-length", "0"], "--max-token-length"),
        (["--name", "Big"], "--name Big"),
        (["--name", "../x"], "--name ../x"),
        (["--checkpoint-seconds", "-1"], "--checkpoint-seconds"),
        (["--progress", "loud"], "--progress"),
        (["--no-such-option"], "--no-such-option"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_usage_errors(source, tmp_path, arguments, message):
    """Exit 2, a message that names the option, and no run is made."""
    done = cli("train", tmp_path / "run", source, *arguments, expect=2)
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_errors_of_runs_exit_with_1(tmp_path):
    """No such run, no such source, nothing to resume: exit 1 and a message, never a traceback."""
    assert "is not a RUN" in cli("train", tmp_path / "missing", expect=1).stderr
    missing = cli("resume", tmp_path / "missing", expect=1).stderr
    assert "no training to resume" in missing
    assert "its first command again" in missing
    cli("train", tmp_path / "run", tmp_path / "missing.txt", expect=1)


@pytest.mark.long
def test_the_end_is_told(source, trained, tmp_path):
    """No pair left: said, exit 0. Done before: said, exit 0. Refused: exit 2 and how to go on."""
    out = cli("train", trained, "--name", "rare", "--vocab-size", 9000, "--min-frequency", 50)
    assert "no pair is left" in out.stderr
    assert "nothing to do" in cli("train", trained, "--vocab-size", 400).stderr
    assert "nothing to do" in cli("resume", trained, "--name", "other").stderr
    refused = cli("train", trained, "--vocab-size", 400, "--ties", "bytes", expect=2)
    assert f"streambpe resume {trained}" in refused.stderr
    blocked = cli(
        "train", trained, "--name", "blocked", "--vocab-size", 300, "--block-token", "an", "--block-token", "in"
    )
    assert "pairs vetoed" in blocked.stderr


def test_progress_lines_parse(source, tmp_path):
    """--progress jsonl: every line of stderr but the last is JSON; stages follow each other to the end."""
    done = cli("train", tmp_path / "run", source, "--vocab-size", 1000, "--progress", "jsonl")
    *lines, last = done.stderr.splitlines()
    assert last.startswith(str(tmp_path / "run" / "model.events.jsonl"))
    statuses = [json.loads(line) for line in lines]
    stages = [status["stage"] for status in statuses]
    assert {"counting", "preparing"} & set(stages)
    assert stages[-1] == "trained"
    assert statuses[-1]["state"] == "done"
    assert statuses[-1]["done"] == statuses[-1]["total"] == 1000 - 256
    for status in statuses:
        assert status["memory_bytes"] > 0
        assert {"state", "unit", "per_second", "pid", "updated"} <= status.keys()


def table(run: Path, query: str, *arguments: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(cli("sql", run, query, "--json", *arguments).stdout)
    return rows


def test_views_show_the_training_that_is_named(trained):
    """vocabulary, top_pairs, merge_curve, progress: of main, of --name, and, with --files, by SET VARIABLE."""
    assert table(trained, "SELECT count(*) AS n FROM vocabulary") == [{"n": 400}]
    assert table(trained, "SELECT count(*) AS n FROM vocabulary", "--name", "other") == [{"n": 300}]
    by_hand = "SET VARIABLE training = 'other'; SELECT count(*) AS n FROM vocabulary"
    assert table(trained, by_hand, "--files") == [{"n": 300}]
    for view in ("top_pairs", "merge_curve", "progress"):
        main_rows, other_rows = table(trained, f"FROM {view}"), table(trained, f"FROM {view}", "--name", "other")
        assert main_rows, view
        assert other_rows, view
        assert main_rows != other_rows, view
    assert len(table(trained, "FROM events", "--name", "other")) == 300 - 243
    missing = cli("sql", trained, "FROM events", "--name", "none", expect=1)
    assert "no training none" in missing.stderr
    assert "main, other" in missing.stderr


@pytest.mark.long
def test_check_speaks_for_trainings(trained, tmp_path):
    """check: exit 0 when all adds up; exit 1, the rows and the way to mend them when not."""
    import shutil

    assert "everything adds up" in cli("check", trained).stderr
    run = shutil.copytree(trained, tmp_path / "run")
    change(run, "UPDATE other.pair_counts SET n = n + 1 WHERE rowid = (SELECT min(rowid) FROM other.pair_counts)")
    found = cli("check", run, "--replay", expect=1)
    assert found.stdout.startswith("other.pair_counts: ")
    assert "remove its event log and train again" in found.stderr


def test_specials_and_reserve_reach_the_log(source, tmp_path):
    """--special and --reserve take their ids from --vocab-size; the log's header has them."""
    run = tmp_path / "run"
    cli("train", run, source, "--vocab-size", 300, "--special", "<s>", "--special", "</s>", "--reserve", 3)
    header = json.loads((run / "model.events.jsonl").read_text().split("\n", 1)[0])
    assert header["specials"] == [{"text": "<s>", "id": 295}, {"text": "</s>", "id": 296}]
    assert (header["reserved"], header["events"]["count"]) == (3, 300 - 256 - 5)
