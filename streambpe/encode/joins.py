"""How an extended vocabulary encodes texts otherwise than the one it extends: by joins of its ids, and nothing else.

before   ka zi  ya    262 5813 77
after    kazi   ya    50257    77       two ids joined into one; every other is equal
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streambpe.arrays import Int64
from streambpe.model.replay import Model


def symbols_of_ids(model: Model) -> Int64:
    """How many base symbols each model id stands for; 1 for those that are no tokens."""
    sizes = np.ones(max([*model.log_id, *model.special_ids.values(), 0]) + 1, np.int64)
    for number, log_id in model.log_id.items():
        sizes[number] = max(len(model.vocabulary[log_id].base), 1)
    return sizes


@dataclass
class Joins:
    """Texts encoded both ways."""

    texts: int = 0
    shorter: int = 0
    ids_before: int = 0
    ids: int = 0
    otherwise: int = 0  # texts that differ by more than joins

    def add(self, before: npt.ArrayLike, after: npt.ArrayLike, sizes: Int64) -> None:
        """A text's ids; `sizes`: how many symbols each id stands for."""
        old, new = np.asarray(before, np.int64), np.asarray(after, np.int64)
        self.texts += 1
        self.shorter += len(new) < len(old)
        self.ids_before += len(old)
        self.ids += len(new)
        ends = np.cumsum(sizes[old])
        last = np.searchsorted(ends, np.cumsum(sizes[new]))  # the old id that each new one ends with
        if len(old) == 0 or len(new) == 0 or last[-1] != len(old) - 1:
            self.otherwise += len(old) != len(new)
            return
        alone = np.diff(last, prepend=-1) == 1
        equal = np.array_equal(ends[last], np.cumsum(sizes[new])) and np.array_equal(old[last][alone], new[alone])
        self.otherwise += not equal

    def told(self) -> str:
        """In a sentence."""
        else_ = "nothing else differs" if not self.otherwise else f"other differences: {self.otherwise:,}"
        return (
            f"{self.shorter:,} of {self.texts:,} texts are shorter, {self.ids_before:,} ids before and {self.ids:,} "
            f"now, by joins of old ids; {else_}"
        )
