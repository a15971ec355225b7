"""SuperBPE: bytes per token by the transition at which superwords begin."""

from __future__ import annotations

from collections.abc import Iterator

from paper_texts import Curve, Row, Table, Texts, measured, trained

SIZE = 32_768
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def curve(texts: Texts) -> Curve:
    """All transitions; at 100 % there are no superwords."""
    found = []
    for share in SHARES:
        at = str(round(SIZE * share))
        options = ("--pattern", "superbpe1", "--superwords", "uw", "--transition", at)
        run = trained(texts, f"uw-{at}", "--vocab-size", str(SIZE), *options)
        found.append([f"{100 * share:g}", f"{measured(str(run), texts).values['bytes_per_token']:.3f}"])
    found.append(["100", f"{_plain(texts):.3f}"])
    told = "a curve that is not readable"
    columns = ["transition, percent of ids", "bytes per token"]
    return Curve(columns, found, told)


def rows(texts: Texts) -> Iterator[Row]:
    """What the paper says in words."""
    best, value = max(((float(share), float(value)) for share, value in curve(texts).rows), key=lambda row: row[1])
    yield "the best transition", "not readable", f"{best:g} % ({value:.3f} bytes per token)"
    yield (
        "fewer tokens than without superwords, at the best transition",
        "up to 33 % (abstract)",
        f"{1 - _plain(texts) / value:.1%}",
    )


def _plain(texts: Texts) -> float:
    run = trained(texts, "uw-plain", "--vocab-size", str(SIZE), "--pattern", "superbpe1")
    return measured(str(run), texts).values["bytes_per_token"]


TABLE = Table(
    "The paper learned 200 000 ids from 10 GB; with fewer, another transition is best.", rows, {"curve": curve}
)
