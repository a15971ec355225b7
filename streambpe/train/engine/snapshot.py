"""A folder from which learning goes on: the words as they are, the tokens made so far, and what became of them.

symbols_00000.npy  offsets_00000.npy  weights_00000.npy  ...     words, in parts
tokens.parquet                                                   learned tokens, in the order of their ids
engine.json                                                      the rest
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from streambpe.arrays import save_array
from streambpe.later import polars as pl
from streambpe.train.engine.learning import Learning
from streambpe.train.engine.rules import Words
from streambpe.train.engine.state import State

SNAPSHOT_VERSION = 1


def write_snapshot(folder: Path, state: State, learning: Learning) -> None:
    """Write words and tokens; learning can go on.

    The caller renames the folder into place when this returns: a folder half written is not a snapshot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part = 0
    for symbols, offsets, weights in learning.words():
        symbols_path, offsets_path, weights_path = _paths(folder, part)
        save_array(symbols, symbols_path)
        save_array(offsets, offsets_path)
        save_array(weights, weights_path)
        part += 1
    learning.report_lives()
    tokens = pl.DataFrame({"token": state.tokens[state.first_id :]}, schema={"token": pl.Binary})
    tokens.write_parquet(folder / "tokens.parquet")
    facts = {
        "parts": part,
        "merges": state.merges,
        "next_id": state.next_id,
        "first_id": state.first_id,
        "lengths": state.lengths[state.first_id : state.next_id].tolist(),
        "vetoed": state.vetoed,
        "lives": state.lives.state() if state.lives else None,
    }
    (folder / "engine.json").write_text(json.dumps(facts), encoding="utf-8")


def read_snapshot(folder: Path, state: State) -> Callable[[], Iterator[Words]]:
    """Gives the words of a snapshot, as often as it is called; the tokens go into a state that learned nothing yet."""
    facts = json.loads((folder / "engine.json").read_text(encoding="utf-8"))
    if state.first_id != facts["first_id"]:
        raise ValueError(f"{folder} starts at id {facts['first_id']}, not {state.first_id}")
    state.restore(pl.read_parquet(folder / "tokens.parquet", glob=False)["token"].to_list(), facts["lengths"])
    state.merges = facts["merges"]
    for left, right, n in facts["vetoed"]:
        state.veto(left, right, n)
    if state.lives is not None:
        state.lives.load(facts["lives"])
        state.dead = state.lives.alive.count(False)
    return lambda: _read_parts(folder, facts["parts"])


def _paths(folder: Path, part: int) -> list[Path]:
    return [folder / f"{name}_{part:05d}.npy" for name in ("symbols", "offsets", "weights")]


def _read_parts(folder: Path, parts: int) -> Iterator[Words]:
    """The words of a snapshot, part by part, as memory maps: joined they would be held beside their copy."""
    for part in range(parts):
        symbols, offsets, weights = (np.load(path, mmap_mode="r") for path in _paths(folder, part))
        yield Words(symbols, offsets, weights)
