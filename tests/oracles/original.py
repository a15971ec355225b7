"""BoundlessBPE as first published: one pass, with its quirks, kept only to judge by.

Two states run side by side: words (as in `words`, with deletions) and documents, whose
elements are whole chunks as byte strings. Every chunk is locked at first. One whose text is eligible is unlocked for
ever once a word merge makes it one token, and neighbours that are both unlocked count as superword pairs. What differs
from `superwords`, on purpose:

* a tie between a merge and a supermerge goes to the supermerge;
* a deleted token stays in the vocabulary, counts in its size and can never be made again: any
  pair that would spell a string already listed is passed over;
* deleting a word token does not lock its chunk again;
* a chunk of one base symbol is never unlocked, since no merge makes it;
* a superword made of a word and itself (" no" + " no") stays locked, so nothing is ever joined to it, unless some
  document has become that superword and nothing else;
* a superword whose string is also a locked chunk elsewhere unlocks it, but its neighbours there are not counted.

The published code ends with a failed assertion where a pair of such uncounted neighbours is joined; this code goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import supermerge_event
from streambpe.model.replay import Pair
from tests.oracles.primitives import Corpus, Detail, Training
from tests.oracles.superwords import IMPROVED, Documents, TextTest, count_chunks, text_matches
from tests.oracles.words import Deletions, WordTrainer


def train_boundless_original(
    documents: Documents,
    alphabet: Alphabet,
    vocab_size: int,
    *,
    superword_pattern: str | TextTest = IMPROVED,
    deletions: Deletions | None = None,
) -> Training:
    """Learn until vocab_size strings are listed (deleted ones included) or no pair is left.

    Log ids are this system's own ids, since nothing ever leaves its list.
    """
    eligible = (
        text_matches(superword_pattern, at_start=True) if isinstance(superword_pattern, str) else superword_pattern
    )
    trainer = WordTrainer(count_chunks(documents), alphabet, ties="bytes", overlaps="disjoint", deletions=deletions)
    training, vocabulary = trainer.training, trainer.training.vocabulary

    # Elements of documents, numbered on their own: a chunk may be unlocked, a log id may not exist yet.
    contents = list(count_chunks(documents))
    number_of = {content: number for number, content in enumerate(contents)}
    unlocked: set[int] = set()
    supers = Corpus(
        (([number_of[chunk] for chunk in document], 1) for document in documents),
        "disjoint",
        allowed=lambda left, right: left in unlocked and right in unlocked,
    )
    documents_with: dict[int, list[int]] = {}
    for place, document in enumerate(supers.sequences):
        for element in dict.fromkeys(document):
            documents_with.setdefault(element, []).append(place)

    log_id = {token.content: token.id for token in vocabulary.tokens}  # the list that nothing leaves

    def listed(content: Callable[[int], bytes]) -> Callable[[Pair], bool]:
        return lambda pair: content(pair[0]) + content(pair[1]) in log_id

    def content_of(number: int) -> bytes:
        return vocabulary[number].content

    while len(log_id) < vocab_size:
        word = training.corpus.best(trainer.tie_key, skip=listed(content_of))
        superword = supers.best(lambda pair: (contents[pair[0]], contents[pair[1]]), skip=listed(contents.__getitem__))
        if word is None and superword is None:
            return training
        if word is not None and (superword is None or word.n > superword.n):
            done = len(training.events)
            trainer.step(*word)
            new, detail = training.events[done].id, training.details[done]
            log_id[content_of(new)] = new
            chunk = number_of.get(content_of(new))
            # `completed` and the chunk's existence go together; a superword's bytes are no chunk.
            if detail is not None and detail.completed and chunk is not None and eligible(content_of(new)):
                supers.recount(documents_with.get(chunk, ()), partial(unlocked.add, chunk))
        elif superword is not None:
            left, right = superword.pair
            content = contents[left] + contents[right]
            element = number_of.setdefault(content, len(contents))
            if element == len(contents):
                contents.append(content)
            if left != right:
                unlocked.add(element)
            before = supers.token_counts[left], supers.token_counts[right]
            merged, completed = supers.merge(superword.pair, element, on_completed=partial(unlocked.add, element))
            ids = log_id[contents[left]], log_id[contents[right]]
            new = vocabulary.learn(*ids)
            log_id[content] = new
            training.record(supermerge_event(*ids, new, superword.n), Detail(*before, merged, completed))
    training.target_reached = True
    return training
