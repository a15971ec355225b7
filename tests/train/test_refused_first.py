"""What is refused is refused before anything is written, and what another command left there stays."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streambpe.cli.main import main
from streambpe.errors import RunMismatch, StreambpeError, UsageError
from streambpe.store.run import Run
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.oracles.tables import check
from tests.runs import SMALL, rows, text_run
from tests.samples import written

TEXT = "the cat sat on the mat and the dog sat on the log\n" * 30


def state_of(*folders: Path) -> dict[str, tuple[int, int, str]]:
    """Of every file and folder: size, time, digest of the content."""
    found = {}
    for folder in folders:
        for path in [folder, *sorted(folder.rglob("*"))]:
            if path.exists():
                stat = path.stat()
                content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
                found[str(path)] = (stat.st_size if content else 0, stat.st_mtime_ns, content)
    return found


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "in" / "text.txt"
    path.parent.mkdir()
    path.write_text(TEXT)
    return str(path)


UNTIL = {"text": "in/text.txt", "until_bytes_per_token": 4}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"pattern": "("}, "pattern"),
    ({"lines": True, "text_column": "body"}, "text"),
    ({"ties": "first-seen"}, "--ties first-seen: one of ids, bytes"),
    ({"like": "gpt5"}, "--like gpt5: one of"),
    ({"special": ("<s>", "<s>")}, "--special <s>: it is given twice"),
    ({"special": ("",)}, "--special '': a special token needs"),
    ({"special": ("<s>", "\udcff")}, "--special .*not UTF-8"),
    ({"reserve": -1}, "--reserve -1: at least 0"),
    ({"max_token_length": 0}, "--max-token-length 0: at least 1"),
    ({"max_token_length": 10**19}, r"--max-token-length 10+: at most 9223372036854775807"),
    ({"name": "Main"}, "--name Main"),
    ({"max_disk": "x"}, "--max-disk 'x' is not a size"),
    ({"learner": "polars"}, r"--learner polars: one of core, tables\. Nothing was changed\."),
    ({"learner": "tables", "balance": True}, r"--balance --learner tables: only the core can balance\. Nothing was"),
    # ids
    ({"vocab_size": 242, "like": "kensho"}, "less than the 243 ids"),
    ({"vocab_size": 258, "special": ("<s>",), "reserve": 2}, "less than the 259 ids"),
    ({"encoding": "script", "vocab_size": 2000}, "less than the 2172 ids"),
    ({"encoding": "script", "unencodable": "drop", "vocab_size": 1900}, "less than the 1916 ids"),
    # groups
    ({"weight": {"news": "2"}}, "no source group 'news'; it has none"),
    ({"weight": {"out": "2"}, "group_by": "folder"}, "no source group 'out'; it has in"),
    ({"group": ["de="]}, "NAME=GLOB"),
    ({"weight": ["de"]}, "--weight de: write NAME=NUMBER"),
    ({"weight": ["de=0.1234567"]}, "--weight de=0.1234567"),
    ({"weight": ["de=1", "de=2"]}, "give each group once"),
    ({"alpha": "1.1"}, "--alpha 1.1: .* at least 0 and at most 1"),
    ({"balance": True}, "--balance needs every source in one of two or more groups"),
    # deletions, characters
    ({"tau": "nan"}, "--tau nan: give a decimal number above 0 and at most 1"),
    ({"delete_to": "walk"}, "--delete-to belongs to --tau"),
    ({"coverage": "0.99"}, "--coverage belongs to --encoding chars"),
    ({"encoding": "chars", "alphabet": "gpt2"}, "--alphabet gpt2: the base symbols of --encoding chars"),
    # superwords
    ({"superwords": "boundless", "sequences": False}, "needs the documents"),
    ({"superwords": "boundless", "transition": 300}, "--transition belongs to"),
    ({"superwords": "superbpe", "transition": 900}, "--transition 900 is more than"),
    ({"superwords": "boundless", "superword_pattern": "("}, r"--superword-pattern '\(' does not compile"),
    ({"superwords": "boundless", "forbid": "["}, r"--forbid '\[' does not compile"),
    ({"superwords": "boundless", "forbid": "\ud800"}, "--forbid .*not UTF-8"),
    ({"superwords": "boundless", "max_superword_words": 1}, "--max-superword-words 1: at least 2"),
    ({"superwords": "boundless", "stage2_pattern": "gpt2"}, "--stage2-pattern belongs to"),
    ({"superwords": "uw", "superword_pattern": "simple"}, "--superword-pattern belongs to"),
    ({"forbid": "x"}, "--forbid belongs to"),
    # bytes per token
    ({"until_bytes_per_token": 4}, "belong together"),
    (UNTIL | {"until_bytes_per_token": "1e999999999"}, "1e999999999: give a decimal number above 0"),
    (UNTIL | {"tau": "0.9"}, "with --tau a smaller"),
    (UNTIL | {"superwords": "uw"}, "with --superwords uw a smaller"),
    (UNTIL | {"text": "nowhere.txt"}, "nowhere.txt cannot be read"),
]


@pytest.mark.parametrize(("options", "told"), WRONG, ids=str)
def test_refused_before_anything_is_counted(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], told: str
) -> None:
    """One message that names the option. No RUN, no temporary folder, nothing."""
    monkeypatch.chdir(tmp_path)
    before = state_of(tmp_path)
    with pytest.raises(StreambpeError, match=told):
        train("run", [text], **{"vocab_size": 300, **options}, memory="400MB", temp_dir=tmp_path / "tmp")
    assert state_of(tmp_path) == before


REFUSED = [
    "count run in/text.txt --pattern gpt2",
    "count run in/text.txt --lines",
    "count run in/text.txt --sample 1/10",
    "count run in/text.txt --sequences",
    "count run in/text.txt --group news=in/*",
    "count run in/none.txt",
    "count run run",
    "count run --take-back in/none.txt",
    "train run -s 259",
    "train run -s 300 --ties bytes",
    "train run -s 300 --until-bytes-per-token 4 --text in/none.txt",
    "train run -s 300 --superwords boundless",
    "train run -s 300 --pattern gpt2",
    "train run -s 300 --as run --like hf",
    "train run -s 300 --extend run",
    "train run -s 300 in/second.txt",
    "train run -s 300 --config in/text.txt",
    "train run --name more in/second.txt -s 300 --weight news=2",
    "train new in/none.txt -s 300",
    "train in in/text.txt -s 300",
    "resume in",
    "resume run --name none",
    "merge-counts run run",
    "merge-counts run other",
    "export-counts run -o in/text.txt",
    "export run --to tiktoken --vocab-size 9999 -o out",
    "encode run in/text.txt -o in/text.txt",
    "prune run -o in/text.txt --vocab-size 260",
    "report run -o in/text.txt",
    "sql run 'DROP TABLE chunk_counts'",
]


def test_what_is_refused_changes_nothing(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name, size, time and content in the folder is as before, but for the lock that was held."""
    (tmp_path / "in" / "second.txt").write_text(TEXT.upper())
    train(tmp_path / "run", [text], vocab_size=270, resources=SMALL)
    count(tmp_path / "other", [text], pattern="gpt2", resources=SMALL)
    before, wrong = state_of(tmp_path), []
    monkeypatch.chdir(tmp_path)
    for command in REFUSED:
        result = CliRunner().invoke(main, shlex.split(command))
        after = state_of(tmp_path)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        changed -= {str(tmp_path / "run" / "lock")}
        if result.exit_code == 0 or "Traceback" in result.stderr or changed:
            wrong.append((command, result.exit_code, result.stderr[-300:], sorted(changed)))
        before = after
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.long
def test_a_refused_extension_leaves_the_one_that_was_begun(tmp_path: Path, text: str) -> None:
    """A stopped --extend A needs the event log of A, also after --extend B was refused."""
    logs = []
    for size in (270, 280):
        train(tmp_path / f"m{size}", [text], vocab_size=size, resources=SMALL)
        logs.append(tmp_path / f"m{size}" / "model.events.jsonl")
    run = tmp_path / "run"
    count(run, [text], resources=SMALL)
    kept = written(run / "extended.jsonl", logs[0].read_bytes())
    with pytest.raises(UsageError):
        train(run, [text], extend=logs[1], pattern="gpt2", vocab_size=300, resources=SMALL)
    assert kept.read_bytes() == logs[0].read_bytes()


def test_two_first_counts_at_once_agree_on_the_pattern(tmp_path: Path, text: str, monkeypatch) -> None:
    """The one that gets the lock later sees what the first one made, and is refused."""
    run, second = tmp_path / "run", tmp_path / "in" / "second.txt"
    second.write_text(TEXT.upper())
    lock, others = Run.lock, [lambda: count(run, [str(second)], pattern="gpt2", resources=SMALL)]

    @contextlib.contextmanager
    def lock_later(self: Run) -> Iterator[None]:
        if others:
            others.pop()()
        with lock(self):
            yield

    monkeypatch.setattr(Run, "lock", lock_later)
    with pytest.raises(RunMismatch, match="was counted with --pattern gpt2, not gpt4o"):
        count(run, [text], pattern="gpt4o", resources=SMALL)
    count(run, [text], resources=SMALL)
    assert json.loads(Run(run).facts()["config"])["pattern"] == "gpt2"
    assert check(run, resources=SMALL) == []
    assert rows(run, "SELECT count(DISTINCT path) FROM sources") == [(2,)]


def test_a_file_that_is_no_part_is_named(tmp_path: Path) -> None:
    """counts/foo-bar.parquet was called a defect of the program."""
    run = text_run(tmp_path / "run", TEXT)
    (run / "counts" / "foo-bar.parquet").write_bytes(b"PAR1 and something else")
    (tmp_path / "more.txt").write_text("more")
    with pytest.raises(Exception, match=r"foo-bar\.parquet is damaged .* Move it away") as why:
        count(run, [str(tmp_path / "more.txt")], resources=SMALL)
    assert type(why.value).__name__ == "RunError"
