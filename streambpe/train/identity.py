"""What must not change while a training goes on, and whether it is done.

started with --vocab-size 8000, now 16000      goes on
started with --ties ids, now bytes             refused
sources counted since                          refused
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from streambpe.config import TrainConfig
from streambpe.errors import EventLogError, ResumeMismatch, RunError, typed
from streambpe.model.eventlog import EventLog, events_digest, read_event_log
from streambpe.options import options_of
from streambpe.store import unfinished
from streambpe.store.identity import refuse_other_log
from streambpe.store.journal import Journal
from streambpe.store.trainings import open_tables, read_facts
from streambpe.train.as_model import config_of_log
from streambpe.train.training import Training, TrainResult, weights_told

# Options that name files: how a training was started that has another file, one where none is asked for, or none.
_FILES = {
    "extends": ("to extend another model", "to extend a model", "without --extend"),
    "balanced_on": ("with other texts of --balance-text", "with --balance-text", "without --balance-text"),
}


class _Sized(msgspec.Struct):
    vocab_size: int


class _Started(msgspec.Struct):
    """What `identity_of` gives, as any version may have written it."""

    config: _Sized
    specials: list[str]
    reserve: int
    corpus: str


def identity_of(config: TrainConfig, corpus_sha256: str | None) -> dict[str, Any]:
    """What a journal says of its training: what must not change while it goes on."""
    return {"config": config.as_facts(), "specials": list(config.specials), "reserve": config.reserve,
            "corpus": corpus_sha256}  # fmt: skip


def _identity_in(log: EventLog) -> dict[str, Any]:
    """The identity that is read from the log of a finished training."""
    return identity_of(config_of_log(log), log.header.corpus.get("sha256"))


def read_journal(training: Training) -> Journal:
    """The journal of an unfinished training; an error if the file is none."""
    journal = Journal.read(training.journal)
    try:
        msgspec.convert(journal.training, _Started)
    except msgspec.ValidationError:
        raise RunError(
            f"{training.journal} is not the journal of a training: another file replaced it. Nothing was changed. "
            "Put the right one back, or remove it and train again: the counts are kept."
        ) from None
    return journal


def read_log(training: Training) -> EventLog:
    """The event log of a finished training; an error if the file is not the one that the training wrote."""
    refuse_other_log(training.log)
    try:
        log = read_event_log(training.log)
        if "vocab_size" not in log.header.config:
            raise EventLogError(f"{training.log}: line 1 does not say the vocab_size of a training")
        return log
    except EventLogError as why:
        raise RunError(f"{why}. Remove the file and train again: the counts are kept.") from None


def refuse_half_counted(training: Training, given: Collection[str] = ()) -> None:
    """An error where a new training would learn from part of a corpus and nobody asked for that.

    A training that goes on was begun on the counts it is to have; `refuse_changes` checks that they are the same.
    `given`: paths of sources that will be counted before the training begins.
    """
    if not training.journal.exists():
        unfinished.refuse_half_counted(
            training.run, ", or learn from what has been counted with --allow-partial", given=given
        )


def refuse_started_otherwise(training: Training) -> bool:
    """Compare the options with those this training was started with, before anything is read.

    Returns whether it was started at all.
    """
    if training.journal.exists():
        before: Mapping[str, Any] = read_journal(training).training
    elif training.log.exists():
        before = _identity_in(read_log(training))
    else:
        return False
    refuse_changes(training, before, before["corpus"])
    return True


def refuse_changes(training: Training, before: Mapping[str, Any], corpus_sha256: str) -> None:
    """Only a larger vocab_size may differ from what a training was started with."""
    now = identity_of(training.config, corpus_sha256)
    if before["corpus"] != now["corpus"]:
        raise ResumeMismatch(
            f"{training}, was learned from other counts: sources were added, chunk_counts was edited, or parts are "
            f"missing. It was not changed. `streambpe count {typed(training.run.path)} SOURCE...` reads missing parts "
            "again. To learn from the present counts as well, give another --name NAME."
        )
    flat_before = {**before["config"], "special": before["specials"], "reserve": before["reserve"]}
    flat_now = {**now["config"], "special": now["specials"], "reserve": now["reserve"]}
    for key in (*_FILES, *sorted((flat_now.keys() | flat_before.keys()) - _FILES.keys())):
        saved, asked = flat_before.get(key), flat_now.get(key)
        if key == "vocab_size":
            _refuse_size(training, saved, asked)
        elif saved != asked:
            grow = "" if key in _FILES else "leave the option out to grow it; "
            raise ResumeMismatch(
                f"{training}, was started {_told(key, saved, asked)}; nothing was changed. Continue with "
                f"`{training.resume_command}`; {grow}or start another training with --name NAME."
            )


def _told(key: str, saved: Any, asked: Any) -> str:
    """with --tau 0.9, not 0.8;  with --balance, not without it."""
    if key in _FILES:
        another, one, none = _FILES[key]
        return another if saved and asked else one if saved else none
    known = options_of(TrainConfig).get(key)
    flag = known.flag if known else f"--{key.replace('_', '-')}"
    if all(value is None or isinstance(value, bool) for value in (saved, asked)):
        return f"{'with' if saved else 'without'} {flag}, not {'with' if asked else 'without'} it"
    if saved is None or asked is None:
        return f"without {flag}, not with {asked}" if saved is None else f"with {flag} {saved}, not without it"
    return f"with {flag} {saved}, not {asked}"


def _refuse_size(training: Training, saved: int | None, asked: int | None) -> None:
    if saved is not None and asked is not None and asked < saved:
        raise ResumeMismatch(
            f"{training}, was started with --vocab-size {saved}; {asked} is smaller. Nothing was changed. Cut it from "
            f"the larger one: `streambpe export {training.model} --to events --vocab-size {asked} -o "
            "NAME.events.jsonl`; or learn it as another training with --name NAME."
        )
    if saved != asked and training.config.batch == "paper":
        raise ResumeMismatch(
            f"{training}, was started with --vocab-size {saved}, not {asked}, and --batch paper: its batches depend "
            "on the size, so it cannot be continued to another. Nothing was changed. Learn the larger one as another "
            "training with --name NAME."
        )


def finished(training: Training, corpus_sha256: str) -> TrainResult | None:
    """The result of a training that is done; None if there is something to learn, or to put into the tables."""
    if not training.log.exists() or training.journal.exists():
        return None
    log = read_log(training)
    refuse_changes(training, _identity_in(log), corpus_sha256)
    if log.header.config["vocab_size"] < training.config.vocab_size:
        return None
    with open_tables(training.run, training.name) as con:
        facts = {} if con is None else read_facts(con)
    digest = events_digest(log.events)
    if facts.get("sha256") != digest:  # the tables were lost or are older
        return None
    return TrainResult(
        training.log, int(facts["size"]), len(log.events), digest, facts["reached"] == "true", 0, skipped=True,
        left_out=tuple(source["source"] for source in log.header.corpus.get("left_out", ())),
        weights=weights_told(log.header),
    )  # fmt: skip
