r"""Several expressions, each of which splits what those before it left, as one: tokenizer.json has lists of them.

    `\p{N}`, then ` ?\p{L}+|\s+(?!\S)|\s+`   ->   \p{N}| ?\p{L}+|\s+(?!(?:(?=[^\p{N}])\S))|\s+

All but the last are runs of one class of characters. What lies between two borders of such runs is split by the next
expression as a text of its own, and where that text ends no class matches: so each class of the next expression is
narrowed to the characters that the text may have, those of the run or all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from streambpe.text import dialects
from streambpe.text.characters import code_point_class
from streambpe.text.dialects import Alternatives, Both, Dialect, Edge, Node, Repeat, Set, Unsayable, read, written


def in_turn(expressions: Sequence[str], source: Dialect) -> str:
    """The one expression, for the `regex` module. What it leaves between its matches are chunks. Raises Unsayable."""
    *firsts, tree = [read(expression, source) for expression in expressions]
    for first in reversed(firsts):
        run = first if isinstance(first, Repeat) else Repeat(first, 1, 1)
        held = run.part
        if run.least > 1 or run.lazy or not isinstance(held, Set | Both):
            raise Unsayable("a step before its last that is no run of one class of characters")
        within = _among(tree, held)
        ways = [first]
        if within is not None and run.most is None:
            ways = [within, Repeat(dialects.Sequence((Edge("(?!", within), held)), 1, None)]
        elif within is not None and run.most != 1:
            raise Unsayable("a step that splits what the one before it cut off")
        without = _among(tree, structs.replace(held, negated=not held.negated))
        tree = Alternatives((*ways, *([] if without is None else [without])))
    return written(tree)


def _among(node: Node, held: Set | Both) -> Node | None:
    """What a tree matches in texts of these characters alone; None: nothing."""
    if isinstance(node, Set | Both):
        here, there = (code_point_class(written(one)) for one in (node, held))
        return None if not (here & there).any() else Both((held, node)) if (here & ~there).any() else node
    if isinstance(node, Edge):
        if node.inside is None:
            raise Unsayable("a place in the text, after a step before it")
        inside = _among(node.inside, held)
        if inside is None:
            return dialects.Sequence(()) if "!" in node.kind else None
        return structs.replace(node, inside=inside)
    if isinstance(node, Alternatives | dialects.Sequence):
        parts = [_among(part, held) for part in node.parts]
        left = tuple(part for part in parts if part is not None)
        lost = not left if isinstance(node, Alternatives) else len(left) < len(parts)
        return None if lost else structs.replace(node, parts=left)
    part = _among(node.part, held)
    if part is None:
        return dialects.Sequence(()) if isinstance(node, Repeat) and not node.least else None
    return structs.replace(node, part=part)
