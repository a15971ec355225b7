"""Parity-aware BPE (Foroutan et al. 2025) on one page: who is compressed worst chooses the next merge.

    de  h a u s 3         rate: bytes / tokens, both 1 at the start; de is first by name
    en  h o u s e 2       de chooses: (h, a) 3, which is merged in en too, if it stands there

Everything is counted anew for every merge.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from streambpe.model.replay import Pair, merge
from tests.oracles.primitives import Overlaps, count_pairs

Grouped = Mapping[str, Sequence[tuple[bytes, int]]]


def learn_balanced(
    groups: Grouped,
    merges: int,
    *,
    ratios: Mapping[str, Fraction] | None = None,
    start: int = 0,
    window: int | None = None,
    alpha: Fraction = Fraction(2),
    least: int = 1,
    overlaps: Overlaps = "all",
    longest: int | None = None,
    texts: Grouped | None = None,
    of_ties: Callable[[Iterable[Pair], Mapping[int, bytes]], Pair] = lambda pairs, _: min(pairs),
) -> list[tuple[Pair, int, int]]:
    """(pair, id, count in the group that chose) of the first merges, the first of them (`start` tokens) by the sum of
    all groups. Base symbols are bytes. `texts`: words that say the same in every group; who needs most tokens for them,
    times the ratio, is worst. `longest`: most symbols of a token. Ties of groups: the first by name; of pairs: the
    lowest ids, or what `of_ties` takes, which is told how tokens are spelled."""
    names = sorted(groups)
    words = {name: [(list(word), n) for word, n in groups[name]] for name in names}
    given = {name: [(list(word), n) for word, n in texts[name]] for name in names} if texts else {}
    size = {name: sum(len(word) * n for word, n in groups[name]) for name in names}
    spelled = {bytes([i]): i for i in range(256)}
    bytes_of = {i: content for content, i in spelled.items()}
    learned: list[tuple[Pair, int, int]] = []
    done: set[str] = set()
    last: deque[str] = deque(maxlen=window)
    while len(spelled) - 256 < merges:
        chosen = names
        if len(spelled) - 256 >= start:
            left = [name for name in names if name not in done]
            if not left:
                break
            tokens = {name: sum(len(word) * n for word, n in (given or words)[name]) for name in left}
            rate = {
                name: Fraction(1 if given else size[name], tokens[name]) / (ratios or {}).get(name, 1) for name in left
            }
            worst = sorted(left, key=lambda name: (rate[name], name))
            if window is not None:
                few = [name for name in worst if last.count(name) * len(names) <= alpha * window]
                worst = few or worst
                last.append(worst[0])
            chosen = worst[:1]
        counts: Counter[Pair] = Counter()
        for name in chosen:
            for word, n in words[name]:
                for pair in count_pairs(word, overlaps):
                    if longest is None or len(bytes_of[pair[0]] + bytes_of[pair[1]]) <= longest:
                        counts[pair] += n
        most = max(counts.values(), default=0)
        if most < max(least, 1):
            if len(chosen) > 1:
                break
            done.update(chosen)
            continue
        best = of_ties((pair for pair, n in counts.items() if n == most), bytes_of)
        content = bytes_of[best[0]] + bytes_of[best[1]]
        number = spelled.setdefault(content, len(spelled))
        bytes_of[number] = content
        for held in (words, given):
            for name in held:
                held[name] = [(merge(word, best, number), n) for word, n in held[name]]
        learned.append((best, number, counts[best]))
    return learned
