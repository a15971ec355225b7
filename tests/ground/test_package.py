"""`import streambpe`: what it offers, in every order of imports, and that it loads nothing heavy."""

from __future__ import annotations

import inspect
import json
import pickle
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import streambpe
from tests.runs import ROOT

HEAVY = ("duckdb", "polars", "pyarrow", "numpy", "regex", "rich", "streambpe.train.commands")
WAYS = {
    "attribute": "import streambpe; calls.append(streambpe.train)",
    "from": "from streambpe import train; calls.append(train)",
    "package": "import streambpe.train; calls.append(streambpe.train)",
    "module": "import streambpe.train.commands; calls.append(streambpe.train)",
}
EVERY_FUNCTION = """
from pathlib import Path
import streambpe
from tests.runs import ROOT

run = Path("runs/en")
counted: streambpe.CountResult = streambpe.count(run, "corpus/", group=["a=b/*"], format="jsonl", threads="2")
streambpe.take_back(run, ["corpus/a.txt"], memory="1GB", progress="auto")
print(counted.corpus["bytes"], streambpe.count_from_iterator(run, (str(n) for n in range(9)), source_name="n").warnings)
learned: streambpe.TrainResult = streambpe.train(
    run, ["corpus/"], vocab_size="32k", special="<s>", block_token=["a"], weight={"a": 2}, until_bytes_per_token=4.2,
    superwords="uw", max_disk="1GB", as_model="hf:x",
)
streambpe.train_from_iterator(run, ["a", "b"], vocab_size=300, special=["<s>"], progress="auto", memory="1GB")
again = streambpe.resume(run, name="main", memory="2GB", progress="auto")
print(streambpe.plan("corpus/", vocab_size="32k", rehearse="8MB", memory="1GB", progress="auto").seconds)
print(streambpe.converge(run, steps="3", text="held-out.txt", vocab_size="8k", progress="auto").steps[0].gain)
streambpe.export_counts(run, "c.parquet", allow_partial=True, progress="auto")
merged: streambpe.MergeResult = streambpe.merge_counts(run, ["other"], memory="1GB", progress="auto")
print(streambpe.status(run).stage, streambpe.sql(run, "FROM events", memory="1GB", progress="auto").height)
print(streambpe.check(run, sources=True, replay=True, memory="1GB", progress="auto").in_part)
streambpe.report(run, "r.html", text="t.txt", playground=True, lines=True, memory="1GB", progress="auto").verdict
print(streambpe.evaluate([run], "t.txt", tokenizer="hf:x", by="group", group_by=None, residues="5%")[0].values["bytes"])
table: list[streambpe.SizeFacts] = streambpe.sizes(run, {"de": "t.txt"}, vocab_size="8k,16k", rare=5, force=True)
print(streambpe.explain(run, " the", token=True).rows, streambpe.diff(run, "other").same, table[0].rare)
streambpe.encode_corpus(run, "t.txt", "i.npy", lines=True, format="txt", eot="<s>", shards=2, threads=2)
streambpe.export(run, "hf", "t.json", vocab_size="8k,16k", bos="<s>", add_bos=True, progress="auto")[0].exact
streambpe.import_model("t.json", "t.events.jsonl", special="<s>", progress="auto").encode("the")
streambpe.prune(run, "s.events.jsonl", "16k", text="t.txt", map="m.json", lines=True, residues=0.05)
print(streambpe.extend_report(run, text=["t.txt"], lines=True, memory="1GB", progress="auto").new)
numbers: list[int] = streambpe.Tokenizer(run, vocab_size="8k")("the") + learned.tokenizer.encode("the")
try:
    streambpe.Tokenizer.from_file("ranks", pattern="gpt4", special="<s>").export("hf", "folder/", add_bos=True)
except streambpe.StreambpeError as error:
    print(error.exit_code)
"""


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("first", WAYS)
def test_train_is_one_thing_however_it_was_imported(first):
    """Every import after another gives what can be called and is the package."""
    ways = "\n".join([WAYS[first], *(code for name, code in WAYS.items() if name != first), WAYS[first]])
    found = "print({call is streambpe.train and callable(call.commands.train) and callable(call) for call in calls})"
    assert python(f"calls = []\n{ways}\n{found}") == "{True}\n"


@pytest.mark.parametrize("code", ["from streambpe import train, StreambpeError", "import streambpe.cli.main"])
def test_importing_loads_nothing_heavy(code):
    """Neither the package nor its entry points load what takes time and memory."""
    loaded = python(f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    assert not set(HEAVY) & set(json.loads(loaded))


def test_counting_and_learning_from_text_load_no_polars(tmp_path):
    """25 MB and a tenth of a second of a small job; nor Arrow's computing, 10 MB."""
    (tmp_path / "a.txt").write_text("the cat sat on the mat " * 50)
    train = f"streambpe.train({str(tmp_path / 'run')!r}, [{str(tmp_path / 'a.txt')!r}], vocab_size=270)"
    loaded = set(json.loads(python(f"import streambpe, json, sys; {train}; print(json.dumps(sorted(sys.modules)))")))
    assert "duckdb" in loaded
    assert not {"polars", "streambpe.train.balancing"} & loaded
    assert "pyarrow.compute" not in loaded or "pandas" in loaded  # which DuckDB loads where it is installed


def test_no_two_classes_have_the_same_name():
    """A search for `class NAME` finds one line."""
    files = Path(streambpe.__file__).parent.rglob("*.py")
    names = Counter(re.findall(r"^class (\w+)", "\n".join(path.read_text(encoding="utf-8") for path in files), re.M))
    assert names["Trainer"] == 1
    assert {name for name, times in names.items() if times > 1} == set()


def test_every_public_name_is_there_and_listed():
    """And pickled by its name; an unknown one is an AttributeError."""
    for name in dir(streambpe):
        thing = getattr(streambpe, name)
        assert pickle.loads(pickle.dumps(thing)) is thing or name == "__version__"
    with pytest.raises(AttributeError, match="nothing"):
        streambpe.nothing  # noqa: B018


def test_train_is_inspected_as_a_function_is():
    """Its signature is that of the trainer's function."""
    from streambpe.train import commands

    assert inspect.signature(streambpe.train) == inspect.signature(commands.train)
    assert inspect.getmodule(commands.train) is commands
    assert "streambpe.train" in inspect.getsource(streambpe.train)


@pytest.mark.long
def test_mypy_knows_every_function_and_keyword(tmp_path):
    """The code of docs/python.md and a call of every function are accepted; keywords that there are not are refused."""
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    codes = [code for code in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "datasets" not in code]
    (tmp_path / "good.py").write_text("\n".join([*codes, EVERY_FUNCTION]))
    assert not {name for name in dir(streambpe) if name.islower() and name not in EVERY_FUNCTION} - {"__version__"}
    bad = [
        'evaluate("m", "t", lins=True)', 'sql("r", "q", engine="ray")', 'converge("r", pattern="gpt2")',
        'check("r", threads=[2])', 'train("r", specials=["<s>"])', 'train("r", superwords="uww")', 'Trainer("r")',
    ]  # fmt: skip
    (tmp_path / "bad.py").write_text("import streambpe\n" + "".join(f"streambpe.{call}\n" for call in bad))
    command = [sys.executable, "-m", "mypy", "--strict"]
    good, refused = (
        subprocess.run([*command, tmp_path / file], capture_output=True, text=True, cwd=ROOT).stdout
        for file in ("good.py", "bad.py")
    )
    assert "Success" in good, good
    assert len(re.findall(r"error: .*\[(?:call-arg|arg-type|attr-defined)\]", refused)) == len(bad), refused
