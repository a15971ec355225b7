"""The journal that a training starts with or goes on with, by the state that the training is in.

unfinished             its own
finished and smaller   a new one that begins with the events of the log
new                    an empty one; with --extend, one that begins with the events of that model
"""

from __future__ import annotations

from streambpe.model.eventlog import EventLog
from streambpe.store.journal import Journal
from streambpe.store.trainings import open_tables, read_passes
from streambpe.system import remove_folder
from streambpe.train.engine.rules import pass_carried_over
from streambpe.train.identity import TrainingIdentity, identity_of, read_log, refuse_changes
from streambpe.train.training import Corpus, Training


def open_journal(training: Training, corpus: Corpus) -> Journal:
    """The journal of an unfinished training, or a new one, which goes on from a smaller vocabulary if one is
    finished."""
    sha256 = corpus.totals["sha256"]
    identity = identity_of(training, sha256)
    if training.journal.exists():
        journal = Journal.read(training.journal)
        refuse_changes(training, journal.training, sha256)
        if training.inherited is None or len(journal.events) >= training.inherited.events:
            return _going_on(training, journal, identity)
        return _new(training, identity)  # it was cut off inside the events of the model, which nobody learns again
    if corpus.left_out:
        identity["left_out"] = [source.as_fact(whole_path=True) for source in corpus.left_out]
    remove_folder(training.private)  # what an earlier training of this name left belongs to other events
    # a log with superwords lacks word steps, and that of uw has their counts in stage 2: the words are learned again
    if not training.log.exists() or training.config.superwords != "none":
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
    """The journal that is there, or one that begins with it if another size is asked for."""
    if journal.training["config"]["vocab_size"] == training.config.vocab_size:
        return journal
    if "left_out" in journal.training:
        identity = {**identity, "left_out": journal.training["left_out"]}
    return Journal.start(training.journal, identity, journal.events, journal.batches, journal.vetoes)


def _from_log(training: Training, log: EventLog, identity: TrainingIdentity) -> Journal:
    """A journal that begins with the events of a smaller vocabulary."""
    with open_tables(training.run, training.name) as con:
        passes = None if con is None else read_passes(con, len(log.events))
    batches, vetoes = passes or ([pass_carried_over(len(log.events))], [])
    return Journal.start(training.journal, identity, log.events, batches, vetoes)
