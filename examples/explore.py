"""A notebook about a RUN: its vocabulary at any size, and the questions of the cookbook. Without RUN it learns one.

pip install marimo
marimo edit examples/explore.py
RUN=runs/en marimo run examples/explore.py
"""

import marimo

app = marimo.App(width="medium", app_title="Explore a vocabulary")


@app.cell
def _():
    import os
    import re
    import tempfile
    from pathlib import Path

    import marimo as mo

    import streambpe

    root = Path(__file__).resolve().parents[1]
    run = os.environ.get("RUN")
    if run is None:
        run = f"{tempfile.mkdtemp()}/run"
        streambpe.train(run, root / "tests/data/sample", vocab_size="2k", progress="auto")
    return mo, re, root, run, streambpe


@app.cell
def _(mo, run, streambpe):
    largest = streambpe.Tokenizer(run).vocab_size
    size = mo.ui.slider(300, largest, step=50, value=largest, label="Vocabulary size", show_value=True)
    text = mo.ui.text_area("The cats sat on the mats, and the time went by.", label="Text", full_width=True)
    mo.vstack([mo.md(f"# {run}"), size, text])
    return size, text


@app.cell
def _(mo, run, size, streambpe, text):
    tokenizer = streambpe.Tokenizer(run, vocab_size=size.value)
    tokens = len(tokenizer.encode(text.value))
    per_token = len(text.value.encode()) / max(tokens, 1)
    told = f"**{tokens} tokens**, {per_token:.2f} bytes per token"
    mo.vstack([mo.md(told), mo.Html(tokenizer.show(text.value)._repr_html_())])
    return


@app.cell
def _(mo, re, root):
    cookbook = (root / "docs/cookbook.md").read_text(encoding="utf-8")
    queries = dict(re.findall(r"^-- (\d+\. .*)\n(?:-- .*\n)*((?s:.+?;)\n)", cookbook, re.M))
    question = mo.ui.dropdown(queries, value=next(iter(queries)), label="Question", full_width=True)
    mo.vstack([question])
    return (question,)


@app.cell
def _(mo, question):
    query = mo.ui.code_editor(question.value, language="sql")
    mo.vstack([query])
    return (query,)


@app.cell
def _(query, run, streambpe):
    streambpe.sql(run, query.value)
    return


if __name__ == "__main__":
    app.run()
