"""The journal that a training starts with or goes on with, by the state that the training is in.

unfinished             its own
finished and smaller   a new one that begins with the events of the log
new                    an empty one; with --extend, one that begins with the events of that model
"""

from __future__ import annotations

from streambpe.store.journal import Journal
from streambpe.store.passes import PassRow
from streambpe.store.trainings import open_tables, read_passes
from streambpe.system import remove_folder
from streambpe.train.identity import identity_of, read_journal, read_log, refuse_changes
from streambpe.train.training import Corpus, Training


def open_journal(training: Training, corpus: Corpus) -> Journal:
    """The journal of an unfinished training, or a new one, which goes on from a smaller vocabulary if one is
    finished."""
    path, inherited = training.journal, training.inherited
    identity = identity_of(training.config, corpus.totals["sha256"])
    if path.exists():
        journal = read_journal(training)
        refuse_changes(training, journal.training, identity["corpus"])
        # one that was cut off inside the events of the model, which nobody learns again, is begun anew below
        if inherited is None or len(journal.events) >= len(inherited.log.events):
            if journal.training["config"]["vocab_size"] == training.config.vocab_size:
                return journal
            if "left_out" in journal.training:
                identity["left_out"] = journal.training["left_out"]
            return Journal.start(path, identity, journal.events, journal.batches, journal.vetoes)
    else:
        if corpus.left_out:
            identity["left_out"] = [source.as_fact(whole_path=True) for source in corpus.left_out]
        remove_folder(training.private)  # what an earlier training of this name left belongs to other events
        # a log with superwords lacks word steps, and that of uw has their counts in stage 2: they are learned again
        if training.log.exists() and training.config.superwords == "none":
            log = read_log(training)
            with open_tables(training.run, training.name) as con:
                passes = None if con is None else read_passes(con, len(log.events))
            if passes is None and not training.config.must:  # else nobody knows which events made must-haves
                passes = [PassRow(events=len(log.events), mode="unknown")], []
            if passes is not None:
                return Journal.start(path, identity, log.events, *passes)
    if inherited is None:
        return Journal.start(path, identity)
    events = inherited.log.events
    return Journal.start(path, identity, events, [PassRow(events=len(events), mode="inherited")] if events else [])
