"""What the page says first: how good a vocabulary is, beside another one on the same text, and what to change.

Every sentence comes from the figures that the page shows below it.
"""

from __future__ import annotations

import math

from streambpe.inspect.curves import GrowthFacts
from streambpe.inspect.page_facts import BesideFacts, Facts

_RARE = 100  # a pair that occurs less often: its token is too seldom in the text to be learned well
_ENOUGH = 100  # tokens of text for each id: with fewer, an id without a use says little
_NOTED = 0.05  # shares and gains below this are not worth a change


def percent(share: float) -> str:
    """0.0335 -> "3.4 %": how the page writes every share."""
    return f"{100 * share:.1f} %"


def verdict(facts: Facts) -> list[str]:
    """The sentences: the figures, the comparison, and what to change."""
    if not facts.growth[-1]["tokens"]:
        return ["There is no text to measure it on."]
    return [_figures(facts), *([_compared(facts, facts.beside)] if facts.beside else []), _change(facts)]


def _figures(facts: Facts) -> str:
    last = facts.growth[-1]
    return (
        f"{facts.model} has {last['vocab_size']:,} ids. It cuts {facts.measured_on} into tokens of "
        f"{last['bytes_per_token'] or 0:.3f} bytes on average, and uses {percent(last['vocab_used_share'] or 0)} of "
        f"its ids."
    )


def of_one_size(here: list[GrowthFacts], there: list[GrowthFacts]) -> tuple[GrowthFacts, GrowthFacts]:
    """The largest stops of two vocabularies that have as many ids; without any, the last ones."""
    sizes = {stop["vocab_size"]: stop for stop in there}
    mine = next(stop for stop in [*reversed(here), here[-1]] if stop["vocab_size"] in sizes or stop is here[0])
    least = min(here[-1]["vocab_size"] or 0, there[-1]["vocab_size"] or 0)
    return (mine, sizes[mine["vocab_size"]]) if mine["vocab_size"] == least else (here[-1], there[-1])


def _compared(facts: Facts, other: BesideFacts) -> str:
    both = zip((facts.model, other.model), of_one_size(facts.growth, other.growth), strict=True)
    (good, best), (bad, worst) = sorted(both, key=lambda one: one[1]["tokens"] or 0)
    saved = 1 - (best["tokens"] or 0) / (worst["tokens"] or 1)
    sizes = dict.fromkeys(f"{stop['vocab_size']:,}" for stop in (best, worst))
    return (
        f"{good} is better than {bad} on the same text: with {' and '.join(sizes)} ids it makes {percent(saved)} fewer "
        f"tokens ({best['bytes_per_token']:.3f} against {worst['bytes_per_token']:.3f} bytes per token)."
    )


def _change(facts: Facts) -> str:
    """What to change, in a sentence with its reason."""
    last, vocabulary = facts.growth[-1], facts.vocabulary
    size, tokens = int(last["vocab_size"] or 0), int(last["tokens"] or 0)
    rare = sum(n is not None and n < _RARE for n in vocabulary.n)
    learned = zip(vocabulary.event, vocabulary.uses, strict=False)
    idle = sum(event is not None and not uses for event, uses in learned)
    if tokens < _ENOUGH * size:
        return f"To change: use more text. {tokens:,} tokens are too few to judge {size:,} ids."
    if idle > _NOTED * size:
        return (
            f"To change: make it smaller (--vocab-size, or `streambpe prune`). {idle:,} learned tokens are never used "
            f"in {facts.measured_on}, and each takes a row of a model's embedding."
        )
    if rare > _NOTED * size:
        return (
            f"To change: learn from more text, or add --min-frequency {_RARE}. {rare:,} tokens come from pairs that "
            f"occur fewer than {_RARE} times, too rarely for a model to learn what they mean."
        )
    saved = doubled(facts.growth)
    if saved > _NOTED:
        return f"To change: try a larger --vocab-size. At this rate, twice as many ids save {percent(saved)} of tokens."
    return "Nothing has to change: nearly all tokens are used, few are rare, and more of them would save little."


def doubled(growth: list[GrowthFacts]) -> float:
    """The share of tokens that twice as many ids save, as the last two sizes show it."""
    if len(growth) < 2:
        return 0.0
    (few, more), (many, less) = ((stop["vocab_size"] or 0, stop["tokens"] or 1) for stop in growth[-2:])
    return 1 - (less / more) ** (1 / math.log2(many / few)) if many > few else 0.0
