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
from streambpe.resources import Resources

HEAVY = ("duckdb", "polars", "pyarrow", "numpy", "regex", "rich", "streambpe.train.commands")
WAYS = {
    "attribute": "import streambpe; calls.append(streambpe.train)",
    "from": "from streambpe import train; calls.append(train)",
    "package": "import streambpe.train; calls.append(streambpe.train)",
    "module": "import streambpe.train.commands; calls.append(streambpe.train)",
}
CALLS = """
calls = []
{ways}
import streambpe.train.commands
from streambpe.resources import Resources
assert all(call is streambpe.train for call in calls)
asked = dict(vocab_size=260, resources=Resources(300 * 10**6, 1))
assert calls[-1]({folder!r} + "/run", [{text!r}], **asked).events > 0
assert streambpe.train.commands.train({folder!r} + "/run", **asked).skipped
print("both")
"""


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("first", WAYS)
def test_train_is_called_again_and_again_however_it_was_imported(tmp_path, first):
    """The second call in a process, and every import after another, gives what can be called and is the package."""
    (tmp_path / "a.txt").write_text("the cat and the dog and the cat\n")
    ways = "\n".join([WAYS[first], *(code for name, code in WAYS.items() if name != first), WAYS[first]])
    assert python(CALLS.format(ways=ways, folder=str(tmp_path), text=str(tmp_path / "a.txt"))) == "both\n"


@pytest.mark.parametrize(
    "code",
    [
        "import streambpe",
        "import streambpe.train",
        "from streambpe import train",
        "from streambpe import StreambpeError",
        "import streambpe.cli.main",
    ],
)
def test_importing_loads_nothing_heavy(code):
    """Neither the package nor its entry points load what takes time and memory."""
    loaded = python(f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    assert not set(HEAVY) & set(json.loads(loaded))


def test_counting_and_learning_from_text_load_no_polars(tmp_path):
    """25 MB and a tenth of a second of a small job; nor Arrow's computing, 10 MB."""
    (tmp_path / "a.txt").write_text("the cat sat on the mat " * 50)
    train = f"streambpe.train({str(tmp_path / 'run')!r}, [{str(tmp_path / 'a.txt')!r}], vocab_size=270)"
    loaded = python(f"import streambpe, json, sys; {train}; print(json.dumps(sorted(sys.modules)))")
    assert "duckdb" in json.loads(loaded)
    assert not {"polars", "pyarrow.compute", "streambpe.train.balancing"} & set(json.loads(loaded))


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


def test_train_is_inspected_and_pickled_as_a_function_is():
    """Its signature is that of the trainer's function, and a copy is the thing itself."""
    from streambpe.train import commands

    assert inspect.signature(streambpe.train) == inspect.signature(commands.train)
    assert pickle.loads(pickle.dumps(streambpe.train)) is streambpe.train
    assert inspect.getmodule(commands.train) is commands
    assert "streambpe.train" in inspect.getsource(streambpe.train)


@pytest.mark.long
def test_mypy_knows_every_function_and_keyword(tmp_path):
    """The code of docs/python.md is accepted; keywords that a function does not have are not."""
    page = (Path(streambpe.__file__).parents[1] / "docs/python.md").read_text(encoding="utf-8")
    good = tmp_path / "good.py"
    good.write_text(
        "\n".join(code for code in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "datasets" not in code)
    )
    bad = tmp_path / "bad.py"
    calls = [
        'evaluate("m", "t", lins=True)',
        'sql("r", "q", engine="ray")',
        'converge("r", pattern="gpt2")',
        'check("r", threads=[2])',
    ]
    bad.write_text("import streambpe\n" + "".join(f"streambpe.{call}\n" for call in calls))
    command = [sys.executable, "-m", "mypy", "--strict"]
    done = subprocess.run([*command, good], capture_output=True, text=True, cwd=Path(streambpe.__file__).parents[1])
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*command, bad], capture_output=True, text=True, cwd=Path(streambpe.__file__).parents[1])
    assert len(re.findall(r"error: .*\[(?:call-arg|arg-type)\]", done.stdout)) == len(calls), done.stdout


def test_keywords_that_a_function_does_not_have_are_named(tmp_path):
    """Before anything is read."""
    for call, what in (
        (lambda: streambpe.evaluate("m", "t", lins=True), r"evaluate\(\) has no argument 'lins'. Is 'lines' meant\?"),
        (lambda: streambpe.sql("r", "q", engine="ray"), r"sql\(\) has no argument 'engine'"),
        (lambda: streambpe.plan(["x"], vocabsize=3), r"plan\(\) has no argument 'vocabsize'. Is 'vocab_size' meant\?"),
        (lambda: streambpe.plan(["x"], max_disk="1GB"), r"plan\(\) has no argument 'max_disk'"),
        (lambda: streambpe.converge("r", pattern="gpt2"), r"converge\(\) has no argument 'pattern'"),
        (
            lambda: streambpe.encode_corpus("m", "t", "o.npy", max_disk="1GB"),
            r"encode_corpus\(\) has no argument 'max_disk'",
        ),
        (lambda: streambpe.check("r", threads="two"), r"threads='two': a whole number is wanted"),
    ):
        with pytest.raises(TypeError, match=what):
            call()
    resources = Resources.from_options()
    with pytest.raises(streambpe.StreambpeError, match="memory and resources: each says the same"):
        streambpe.check("r", memory="1GB", resources=resources)
