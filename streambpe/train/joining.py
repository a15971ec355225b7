"""The superwords of a training, and one order of words and superwords for the log and the tables.

find_documents    before anything is learned: the stored documents, or why there are none
join_superwords   after the words: SuperwordPhase learns, and the two orders become one
"""

from __future__ import annotations

import numpy as np

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig
from streambpe.errors import RunMismatch
from streambpe.model.events import Events
from streambpe.store.documents import documents_digest
from streambpe.store.journal import Journal
from streambpe.store.passes import PassRow, VetoRow
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart, order_parts
from streambpe.store.trainings import TokenTable
from streambpe.text.patterns import find_pattern
from streambpe.text.unicode_tables import refuse_other_tables
from streambpe.train.engine.learning import HotPairs
from streambpe.train.superwords.interleave import Interleaved
from streambpe.train.superwords.phase import SuperwordPhase
from streambpe.train.superwords.tasks import readers
from streambpe.train.tables import Joined, Standing
from streambpe.train.training import Corpus, Training


def find_documents(training: Training, corpus: Corpus) -> list[SequencePart]:
    """The stored documents; where there are none, an error that says what to do.

    The character tables decide again which chunks may join and where the text of uw is cut, so they must be those of
    counting.
    """
    refuse_other_tables(training.run.path, corpus.facts, corpus.counting.split_pattern(), "learning superwords")
    refuse_without_documents(training.run, corpus.counting, training.config)
    return order_parts(training.run, corpus.parts)


def refuse_without_documents(run: Run, counting: CountConfig, config: TrainConfig) -> None:
    """An error if superwords are wanted and a run that was counted so has no documents, or uw cannot cut them anew."""
    if config.superwords == "none":
        return
    if not counting.sequences:
        raise RunMismatch(
            f"{run.path} was counted without --sequences, but superwords are learned from documents. Nothing was "
            f"changed. Count into another RUN: `streambpe train RUN SOURCE... --superwords {config.superwords}` "
            "stores them."
        )
    if config.superwords != "uw":
        return
    drops = counting.gaps == "drop"
    if drops or counting.split_pattern().word_mark:
        raise RunMismatch(
            f"{run.path} was counted with --{'gaps drop' if drops else 'pattern whitespace'}, so its chunks are not "
            "the whole text, which --superwords uw splits again. Nothing was changed. Count into another RUN."
        )
    find_pattern(config.stage2_pattern, gaps=counting.gaps, digits=counting.digits)  # refuses one that leaves text out


def join_superwords(phase: SuperwordPhase) -> Joined:
    """Learn the superwords and join them with the words."""
    made = phase.run()
    runs = None if phase.config.superwords == "uw" else phase.run_table()
    book = phase.start.book()
    book.add(made.events, 0)
    phase.meter.stage = "documents"
    documents_sum = documents_digest(phase.training.run, phase.documents, readers(phase.room, phase.documents))
    return Joined(
        _joined_journal(phase, made), book, made.ahead, runs, Standing(_in_model(phase, book), None), documents_sum
    )


def _in_model(phase: SuperwordPhase, book: TokenTable) -> HotPairs:
    """The superwords that may come next, by the ids of the model. A chunk may be no token of it: its word step found no
    place (no supermerge was made of it, for that counts no more than the step), or it was deleted."""
    stops = range(len(book.alphabet), len(book.alphabet) + book.stop_words)
    id_of = {content: i for i, content in enumerate(book.contents, book.alphabet.first_id)
             if i - book.alphabet.first_id not in stops and i not in book.dead}  # fmt: skip
    number_of = np.array([id_of.get(content, -1) for content in phase.spellings.contents], np.int64)
    left, right, n, floor = phase.next_pairs
    left, right = number_of[left], number_of[right]
    return HotPairs(left, right, n, floor).only((left >= 0) & (right >= 0))


def _joined_journal(phase: SuperwordPhase, made: Interleaved) -> Journal:
    """The one order as a journal, which is never written, with the vetoes of those words that are in the model."""
    words = phase.journal
    journal = Journal(words.path, words.training, Events.of(made.events), saved=True)
    journal.batches.append(PassRow(events=len(made.events), mode="interleaved"))
    places = [*made.places, len(made.events)]  # of the words, and of a veto behind the last that found one
    for veto in words.vetoes if len(phase.words) == len(phase.learned) else []:  # uw may pass words over
        if veto.seq < len(places):  # else the words never come that far in this model
            left, right = made.renumbered[veto.left], made.renumbered[veto.right]
            journal.vetoes.append(VetoRow(places[veto.seq], left, right, veto.n))
    return journal
