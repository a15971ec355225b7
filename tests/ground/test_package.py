"""`import streambpe`: what it offers, in every order of imports, and that it loads nothing heavy."""

from __future__ import annotations

import inspect
import json
import pickle
import re
import subprocess
import sys

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
CALLS = """
import streambpe
counted: streambpe.CountResult = streambpe.count("r", "corpus/", group=["a=b/*"], format="jsonl", threads="2")
learned: streambpe.TrainResult = streambpe.train("r", vocab_size="32k", special="<s>", superwords="uw", max_disk="1GB")
streambpe.train_from_iterator("r", ["a", "b"], vocab_size=300, special=["<s>"], progress="auto", memory="1GB")
streambpe.evaluate(["r"], "t.txt", tokenizer="hf:x", by="group", group_by=None, residues="5%")[0].values["bytes"]
streambpe.export("r", "hf", "t.json", vocab_size="8k,16k", bos="<s>", add_bos=True, progress="auto")[0].exact
streambpe.sizes("r", {"de": "t.txt"}, vocab_size="8k,16k", rare=5, force=True)[0].rare
numbers: list[int] = streambpe.Tokenizer("r", vocab_size="8k")("the") + learned.tokenizer.encode("the")
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
    """The code of docs/python.md and the like are accepted, every name is there; unknown keywords are refused."""
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    codes = [code for code in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "datasets" not in code]
    names = "\n".join(f"print(streambpe.{name})" for name in dir(streambpe))
    (tmp_path / "good.py").write_text("\n".join([*codes, CALLS, names]))
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
