"""Python as people use it: keywords with the options' names, errors that name them, results that notebooks show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import streambpe
from streambpe.arguments import in_python
from tests.runs import SMALL
from tests.samples import natural_text

FLAG = re.compile(r"(?<![\w-])--[a-z]")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run with a vocabulary, made with one text where a list may be, and with numbers as people write them."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "a.txt").write_text(natural_text(3, 9_000), encoding="utf-8")
    text, how = str(folder / "a.txt"), {"special": "<s>", "group": "a=*a.txt", "memory": "400MB"}
    assert streambpe.train(folder / "run", text, vocab_size="0.4k", **how).size == 400
    return folder / "run"


def test_numbers_and_single_values_are_taken_as_on_the_command_line(run, tmp_path):
    """What the command line reads as a number is one here, and one thing stands for a list of it."""
    text = str(run.parent / "a.txt")
    assert streambpe.Tokenizer(run, vocab_size="0.3k").n_vocab == 300
    assert streambpe.prune(run, tmp_path / "p.events.jsonl", "0.39k", text=text, resources=SMALL).ids == 390
    sizes = [one.n_vocab for one in streambpe.export(run, "hf", tmp_path / "t.json", vocab_size="0.3k,350")]
    assert sizes == [300, 350]
    (tmp_path / "b.json").write_bytes((tmp_path / "t-300.json").read_bytes())
    found = streambpe.evaluate(run, text, tokenizer=str(tmp_path / "b.json"), by="group", group="a=*", resources=SMALL)
    assert [one.source for one in found] == ["a", "all", "a", "all"]
    small = streambpe.Tokenizer(run, vocab_size=300)
    assert streambpe.Tokenizer.from_file(tmp_path / "b.json").encode("the") == small.encode("the")


def wrong_calls(run: Path, there: Path) -> list[tuple[Any, str]]:
    """Calls that are refused, and how the message begins."""
    text, new = str(run.parent / "a.txt"), there / "new"
    s = streambpe
    return [
        (lambda: s.train(new, text, superwords="uww"), "superwords='uww': one of none, boundless"),
        (lambda: s.train(new, text, vocab_size="32k", tau=0.9, batch="paper"), "tau with batch='paper': a token"),
        (lambda: s.train(new, text, like="gpt5"), "like='gpt5': one of hf, "),
        (lambda: s.train(new, text, transition=5), "transition belongs to superwords='superbpe' or uw"),
        (lambda: s.train(new, text, superwords="uw", sequences=False), "superwords='uw' needs the documents"),
        (lambda: s.train(new, text, weight="en"), "weight='en': write NAME=NUMBER"),
        (lambda: s.train(new, text, memory="1"), "memory=1 is too small"),
        (lambda: s.train(new, text, engine="threads", address="a:1"), "address a:1 names a Ray cluster, but engine"),
        (lambda: s.train_from_iterator(new, "one text"), "iterator must be several texts"),
        (lambda: s.count(new, text, sample="2"), "sample=2: 1/N"),
        (lambda: s.converge(run, steps=70), "steps=70: give a number from 2 to 6"),
        (lambda: s.export(run, "pdf", new), "to='pdf': choose one of hf"),
        (lambda: s.export(run, "hf", there / "t.json", vocab_size="many"), "vocab_size='many': give one number"),
        (lambda: s.encode_corpus(run, text, there / "x.npy", eot="<e>"), "The model has no special token '<e>'"),
        (lambda: s.evaluate([], text), "Nothing to evaluate: name at least one MODEL, or a tokenizer=FILE"),
        (lambda: s.evaluate(run, text, by="group"), "by='group': say which texts"),
        (lambda: s.evaluate(run, text, progress="x"), "progress='x': choose one of"),
        (lambda: s.sql(run, "COPY corpus TO 'x.csv'"), "Only statements that read"),
    ]


def test_errors_say_what_an_argument_is_called(run, tmp_path):
    """No option of the command line in a message, but in a command to be typed; most begin with what was given."""
    for call, begins in wrong_calls(run, tmp_path):
        with pytest.raises(streambpe.StreambpeError) as error:
            call()
        told = str(error.value)
        assert told.startswith(begins), told
        assert not FLAG.search(re.sub(r"`[^`]*`|streambpe [a-z]+ .*$", "", told, flags=re.M)), told
        assert in_python(told) == told


def test_options_in_a_sentence_become_arguments():
    """A command stays a command."""
    told = "Give --memory 256MB, --as x and -o, --no-sequences or --force. Go on with: streambpe resume r --name n"
    assert in_python(told) == (
        "Give memory='256MB', as_model x and output, sequences=False or force=True. "
        "Go on with: streambpe resume r --name n"
    )


NO_TEXT, NO_TEXTS = (None, b"bytes", 5, 1.5, ["the"]), (None, "the", b"the", 5)


@pytest.mark.parametrize(
    ("methods", "given", "told"),
    [
        ("encode encode_ordinary encode_to_numpy show encode_with_offsets", NO_TEXT, "text=.*: a str is expected"),
        ("encode_batch encode_batch_to_numpy encode_ordinary_batch", [[one, one] for one in NO_TEXT], "text="),
        ("encode_batch encode_batch_to_numpy encode_ordinary_batch", NO_TEXTS, "text=.*: a list of texts is expected"),
        ("decode decode_bytes", NO_TEXTS, "tokens=.*: a list of ids is expected"),
        ("decode", ([[1, 2]], [[1]] * 99), "tokens=.*: each id is a whole number"),
        ("token_to_id", (None,), "token=None: a str or bytes"),
        ("id_to_token", ("a",), "number='a': a whole number"),
    ],
)
def test_a_tokenizer_names_what_it_cannot_take(run, methods, given, told):
    """None, bytes, numbers and lists where a text is expected; texts and numbers where ids are."""
    tokenizer = streambpe.Tokenizer(run)
    for method in methods.split():
        for wrong in given:
            with pytest.raises(TypeError, match=told):
                getattr(tokenizer, method)(wrong)


def test_what_no_function_takes_is_named(run):
    """A keyword that it does not have, what is no number, what is no model; before anything is read."""
    s = streambpe
    for call, told in (
        (lambda: s.evaluate("m", "t", lins=True), r"evaluate\(\) has no argument 'lins'. Is 'lines' meant\?"),
        (lambda: s.plan(["x"], max_disk="1GB"), r"plan\(\) has no argument 'max_disk'"),
        (lambda: s.check("r", threads="two"), r"threads='two': a whole number is expected"),
        (lambda: s.Tokenizer(None), r"model=None\): give the path of a MODEL"),
        (lambda: s.Tokenizer(["x"]), r"model=.*: give the path of a MODEL"),
        (lambda: s.Tokenizer(run, vocab_size="many"), r"vocab_size='many': a whole number"),
    ):
        with pytest.raises(TypeError, match=told):
            call()


def test_a_notebook_shows_results_as_tables(run, tmp_path):
    """Every field, escaped; rows of rows as a table within it; and nothing of a result can be changed."""
    result = streambpe.train(run)
    page = result._repr_html_()
    assert "<td>size</td><td>400</td>" in page
    (found,) = streambpe.evaluate(run, str(run.parent / "a.txt"), resources=SMALL)
    assert f"<td>vocab_size</td><td>{400}</td>" in found._repr_html_()
    told = streambpe.explain(run, "<b> the")
    assert "&lt;b&gt;" in told._repr_html_()
    assert "<b>" not in told._repr_html_()
    assert told._repr_html_().count("<table>") == 2
    status, page = streambpe.status(run), streambpe.report(run, tmp_path / "r.html", resources=SMALL)
    assert (status.state, page.figures["vocab_size"], page.verdict[0][:18]) == ("done", 400, "run has 400 ids. I")
    results = [result, found, told, status, page, streambpe.diff(run, run)]
    for one in (*results, *streambpe.export(run, "hf", tmp_path / "t.json")):
        assert one._repr_html_().startswith("<table>")
        with pytest.raises(AttributeError):
            one.size = 3


def test_help_has_every_function_on_two_screens():
    """Of 24 rows and 80 columns; behind it, only the list of modules follows, the version and the file."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        help(streambpe)
    told, rest = shown.getvalue().split("\nPACKAGE CONTENTS\n")
    assert told.count("\n") < 48
    assert max(map(len, told.split("\n"))) <= 80
    assert set(re.findall(r"^[A-Z]{4,}", rest, re.M)) <= {"VERSION", "FILE"}
    for name in dir(streambpe):
        assert re.search(rf"\b{name}\b", told) or not name.islower() or name == "__version__", name
