"""docs/limits.md says what the code does: every value in its tables is that of a constant in the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from streambpe import config, options, resources
from streambpe.arrays import MAX_COUNT
from streambpe.encode import corpus
from streambpe.model import eventlog
from streambpe.resources import Resources
from streambpe.runners import runner
from streambpe.store import database, sqlfiles
from streambpe.system import usable_cores
from streambpe.text import expressions
from streambpe.train import trainer
from streambpe.train.counting import worker
from streambpe.train.counting.sizes import Sizes

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
MB = 10**6
_SIZES = Sizes.of(Resources(resources.SMALLEST_MEMORY_BYTES, 2))


def spaced(number: int) -> str:
    """As the docs write it: 1 000 000."""
    return f"{number:,}".replace(",", " ")


NOT_IN_THE_CODE = {
    "default `--memory`": "a quarter of RAM, or of a container's limit",
    "maximum `--memory`": "all of RAM",
    "peak memory, as a multiple of `--memory`": "1.05",
    "default `--max-disk`": "none",
    "learning that a kill can lose": "about a minute; with superwords, whatever steps are unfinished",
    "a corpus, a file, the number of files, text with [sure cuts](counting.md#patterns) (most presets)": "none",
    "ids": "2^31 - 1",
}
LIMITS = {
    "minimum `--memory`": f"{resources.SMALLEST_MEMORY_BYTES // MB} MB",
    "minimum `--memory` with superwords": f"{resources.SMALLEST_SUPERWORDS_BYTES // MB} MB",
    "maximum `--threads`": "64, or 4 per core if that is more",
    "default `--document-seconds`": f"{resources.DOCUMENT_SECONDS} s",
    "counting that a kill can lose": f"{worker.CHECKPOINT_SECONDS:.0f} s",
    "new attempts at a task whose worker died": f"{runner.RETRIES}",
    "waiting for another process to close `state.duckdb`": f"{database._WAIT_SECONDS:.0f} s",
    "text without a sure cut, with `--memory 256MB`": f"{_SIZES.most / MB:.1f} MB",
    "a line of jsonl, a record of csv, a value of Parquet, with `--memory 256MB`": f"{_SIZES.most / MB:.1f} MB",
    "a count": f"2^{(MAX_COUNT + 1).bit_length() - 1} - 1",
    "a weight": spaced(config.LARGEST_WEIGHT),
    "characters a REGEX may require in one match": spaced(expressions.MOST_REPEATED),
    "ids before the first [base symbol](glossary.md#learning), and reserved ids": (
        f"{spaced(options.MOST_EMPTY_IDS)} each"
    ),
    "total length of a model file's tokens, in base symbols": f"{spaced(eventlog.MOST_SYMBOLS)} + "
    f"{eventlog.MOST_SYMBOLS_A_LINE} per line",
    "ids of one document written to Parquet": "2^31 - 1" if "1 << 31" in inspect.getsource(corpus) else "",
    "rows of a table that `sql` prints": spaced(sqlfiles.MOST_SHOWN_ROWS),
}


def rows() -> dict[str, str]:
    """The value of each limit on the page."""
    limits = PAGE.read_text(encoding="utf-8").split("## Measured")[0]
    lines = re.findall(r"^\| (.+?) \| (.*?) \|.*\|$", limits, re.M)
    return {name: value for name, value in lines if (name, value) != ("limit", "value") and not name.startswith("-")}


def test_every_value_is_that_of_the_code():
    """And no limit stands there that nobody compares."""
    assert {name: rows().get(name) for name in LIMITS | NOT_IN_THE_CODE} == LIMITS | NOT_IN_THE_CODE
    assert rows().keys() == (LIMITS | NOT_IN_THE_CODE).keys()
    assert trainer.CHECKPOINT_SECONDS == worker.CHECKPOINT_SECONDS
    assert resources.most_threads() == max(64, 4 * usable_cores())
