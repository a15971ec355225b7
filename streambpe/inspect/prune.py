"""streambpe prune: a smaller vocabulary out of a larger one, and what that costs in tokens.

Which tokens are used least is measured on texts, or on what the model's own RUN has counted.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from streambpe.arguments import arguments
from streambpe.encode.grown import GrownUses, grows_by_merges
from streambpe.encode.split import parse_share
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.curves import measuring_on
from streambpe.model.eventlog import log_lines
from streambpe.model.pruned import prune_log, refuse_deletions, without_residues
from streambpe.model.replay import Model
from streambpe.options import several, taken, whole_number
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import reported
from streambpe.resources import Resources
from streambpe.results import Result
from streambpe.store.models import read_model, run_of

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords


@dataclass(frozen=True)
class Pruned(Result):
    """What came of it."""

    model: Path
    ids: int
    ids_before: int
    bytes_per_token: float | None  # of what it was measured on
    bytes_per_token_before: float | None


@reported("measuring")
def prune(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    to: int | str | None = None,
    *,
    residues: str | float | None = None,
    text: str | Sequence[str] = (),
    map: str | os.PathLike[str] | None = None,
    keep_ids: bool = False,
    force: bool = False,
    resources: Resources | None = None,
    progress: str = "none",
    **options: Unpack[ReadKeywords],
) -> Pruned:
    """Write the log of a model with `to` ids in use, made of the tokens of `model` that are used most. Or, with
    `residues`, without those that are used in less than this share of the places where merges make them.

    text: what the uses are counted in; none: what the RUN of the model has counted. map: a file to write, from
    old ids to new ones: JSON, or .npz with the arrays old and new. keep_ids: every id stays, and those of tokens that
    leave are free.
    """
    _, how, resources = arguments("prune", options, None, resources)
    texts = several(text)
    if (to is None) == (residues is None):
        raise UsageError("--to N or --residues SHARE says which tokens leave: give one of them. Nothing was written.")
    share = None if residues is None else parse_share(residues, "--residues")
    if share is not None and keep_ids:
        raise UsageError("--residues removes tokens at the end of the log, which renumbers the others: --keep-ids is "
                         "for --to. Nothing was written. Leave it out.")  # fmt: skip
    size = 0 if to is None else taken("to", to, whole_number)
    for path in (output, map):
        if path is not None:
            refuse_existing(Path(path), force)
    if map is not None and os.path.realpath(map) == os.path.realpath(output):
        raise UsageError(f"-o and --map both name {output}. Nothing was written. Give the map a name of its own.")
    log = read_model(model)
    refuse_deletions(log)
    uses_of, measured_on = measuring_on(run_of(model), log, texts, how, resources, 2)
    if share is not None and not grows_by_merges(log):
        raise UsageError(f"--residues {residues}: {model} has superwords, so the places where its tokens are "
                         "made are not known. Nothing was written. Give --to.")  # fmt: skip
    whole = Tokenizer(log)
    grown = GrownUses(whole.encoder)
    before = uses_of(whole, grown.add) if share is not None else uses_of(whole)
    if not before.bytes:
        raise UsageError(
            f"{model}, {measured_on}: there is no text, so the use of tokens is not known. Nothing was written. Give "
            "texts to measure on: --text FILE."
        )
    uses = {number: int(before.n[id_]) for id_, number in Model(log).log_id.items()}
    if share is None:
        made, moved = prune_log(log, uses, size, keep_ids=keep_ids)
    else:
        by_merges = dict(enumerate(grown.made_of_ids().tolist()))
        made, moved = without_residues(log, uses, by_merges, share)
    after = uses_of(Tokenizer(made))
    with contextlib.ExitStack() as files:
        if map is not None:  # it gets its name last, so that there is never a map without its log
            file = files.enter_context(whole_output(Path(map)))
            if Path(map).suffix == ".npz":
                with open(file, "wb") as out:
                    np.savez(out, old=[*moved], new=[*moved.values()])
            else:
                file.write_text(json.dumps(moved) + "\n", encoding="utf-8")
        files.enter_context(whole_output(Path(output))).write_bytes(b"".join(log_lines(made)[0]))
    ids, ids_before = (Tokenizer(one).n_vocab - one.header.config.get("holes", 0) for one in (made, log))
    return Pruned(Path(output), ids, ids_before, after.bytes_per_token, before.bytes_per_token)
