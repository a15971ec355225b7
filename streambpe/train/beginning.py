"""The journal that a training starts with or goes on with, by the state that the training is in.

unfinished             its own
finished and smaller   a new one that begins with the events of the log
new                    an empty one; with --extend, one that begins with the events of that model
"""

from __future__ import annotations

import contextlib
from typing import cast

from streambpe.errors import StoreHeld
from streambpe.model.eventlog import Event, EventLog, events_digest
from streambpe.store.database import list_trainings, open_store, use_training
from streambpe.store.journal import Journal
from streambpe.store.passes import pass_carried_over
from streambpe.store.trainings import read_facts, read_passes, read_words_ahead
from streambpe.system import remove_folder
from streambpe.train.identity import TrainingIdentity, identity_of, read_log, refuse_changes
from streambpe.train.superwords.interleave import phase_one
from streambpe.train.training import Corpus, Training


def open_journal(training: Training, corpus: Corpus) -> Journal:
    """The journal of an unfinished training, or a new one, which goes on from a smaller vocabulary if one is
    finished."""
    sha256 = corpus.totals["sha256"]
    identity = identity_of(training, sha256)
    if training.journal.exists():
        journal = Journal.read(training.journal)
        refuse_changes(training, journal.training, sha256)
        return _going_on(training, journal, identity)
    if corpus.left_out:
        identity["left_out"] = [source.as_fact(whole_path=True) for source in corpus.left_out]
    remove_folder(training.private)  # what an earlier training of this name left belongs to other events
    # a log of uw has the words with their counts in stage 2, so no training can go on from it
    if not training.log.exists() or training.config.superwords == "uw":
        return _new(training, identity)
    return _from_log(training, read_log(training), identity)


def _new(training: Training, identity: TrainingIdentity) -> Journal:
    """A journal without events, or with those of the model that is extended."""
    if training.inherited is None:
        return Journal.start(training.journal, identity)
    events = training.inherited.log.events[:]  # a copy: the journal grows
    passes = [pass_carried_over(len(events), "inherited")] if events else []
    return Journal.start(training.journal, identity, events, passes)


def _going_on(training: Training, journal: Journal, identity: TrainingIdentity) -> Journal:
    """The journal that is there; under a new number if another size is asked for or the tables are ahead of it."""
    if journal.training["config"]["vocab_size"] == training.config.vocab_size:
        if not _tables_are_ahead(training, journal):
            return journal
        # The journal was cut; what is learned again may come in other passes.
        identity = cast(TrainingIdentity, journal.training)
    elif "left_out" in journal.training:
        identity = {**identity, "left_out": journal.training["left_out"]}
    return Journal.start(training.journal, identity, journal.events, journal.batches, journal.vetoes)


def _from_log(training: Training, log: EventLog, identity: TrainingIdentity) -> Journal:
    """A journal that begins with the events of a smaller vocabulary."""
    if training.config.superwords != "none":
        words = _words_of(training, log)
        return Journal.start(training.journal, identity, words, [pass_carried_over(len(words))] if words else [])
    passes = None
    with contextlib.closing(open_store(training.run.state, read_only=True)) as con:
        if training.name in list_trainings(con):
            use_training(con, training.name)
            passes = read_passes(con, len(log.events))
    batches, vetoes = passes or ([pass_carried_over(len(log.events))], [])
    return Journal.start(training.journal, identity, log.events, batches, vetoes)


def _words_of(training: Training, log: EventLog) -> list[Event]:
    """The word events of a finished training, under the ids of phase one."""
    ahead: list[Event] = []
    with contextlib.closing(open_store(training.run.state, read_only=True)) as con:
        if training.name in list_trainings(con):
            use_training(con, training.name)
            if read_facts(con).get("sha256") == events_digest(log.events):
                ahead = read_words_ahead(con)
    return phase_one(log, ahead)


def _tables_are_ahead(training: Training, journal: Journal) -> bool:
    """Whether the tables hold more events or passes of this journal than the journal itself; no kill can cause that."""
    try:
        con = open_store(training.run.state, read_only=True, wait_seconds=0.0)
    except StoreHeld:
        return False
    with contextlib.closing(con):
        if training.name not in list_trainings(con):
            return False
        use_training(con, training.name)
        facts = read_facts(con)
    if facts.get("journal") != journal.number:
        return False
    return int(facts["events"]) > len(journal.events) or int(facts["batches"]) > len(journal.batches)
