"""Weighting the counts of source groups without counting again, by SQL in exact integers.

    train RUN --weight de=2.5
    train RUN --alpha 0.3         weights that follow from the sizes of the groups

Table group_counts has the counts of every group, chunk_counts their sum; table weighted_counts adds the groups up again
with weights.

Weights are decimal numbers, taken as exact fractions. The weighted count of a chunk is the sum over the groups
of weight x count, made an integer by the method of largest remainders: every chunk gets the whole part, and
the rest of the (rounded) total goes, one each, to the chunks with the largest fractions; ties go to the chunk
whose bytes come first. Chunks that come out as 0 are left out.

    de: {"ja": 3, "so": 1}  x 0.5       ja 1.5, so 2.5, no 1.0: 5 in all
    en: {"so": 2, "no": 1}  x 1     ->  ja 2,   so 2,   no 1      ("ja" and "so" tie at 0.5; "ja" is first)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction

import duckdb
import pyarrow as pa

from streambpe.config import LARGEST_WEIGHT, MOST_DECIMALS, TrainConfig
from streambpe.errors import UsageError
from streambpe.store.counted import list_ranges
from streambpe.store.database import feed
from streambpe.store.parts import refuse_overflow
from streambpe.store.sqlfiles import run_sql
from streambpe.system import compose_name


def check_weights(run: object, groups: Collection[str], config: TrainConfig) -> None:
    """Refuse weights for groups that the run does not have."""
    if config.alpha is not None:
        refuse_ungrouped(run, groups, "--alpha")
    refuse_unknown_groups(run, groups, "--weight", config.weights)


def refuse_unknown_groups(run: object, groups: Collection[str], flag: str, given: Mapping[str, str]) -> None:
    """Refuse what an option says of groups that the run does not have."""
    for name, value in given.items():
        if name not in map(compose_name, groups):
            raise UsageError(
                f"{flag} {name}={value}: {run} has no source group {name!r}; it has {listed_groups(groups)}. Nothing "
                "was changed."
            )


def refuse_ungrouped(run: object, groups: Collection[str], flag: str) -> None:
    """Refuse an option that compares all groups, where a source is in none or there is only one."""
    if len(groups) < 2 or "" in groups:
        rest = "; other sources are in no group" if "" in groups and len(groups) > 1 else ""
        raise UsageError(
            f"{flag} needs every source in one of two or more groups; {run} has {listed_groups(groups)}{rest}. "
            f"Nothing was changed. Count into another RUN, with --group or --group-by."
        )


def listed_groups(names: Collection[str]) -> str:
    """The names of groups, for a message."""
    return ", ".join(filter(None, names)) or "none: count with --group or --group-by to have some"


def temper(sizes: Mapping[str, int], alpha: str) -> dict[str, str]:
    """The weights of --alpha, by group: (characters of the largest group / its own) to the power of 1 - alpha.

    Python's decimals are the same on every machine: 50 digits, of which 40 count, rounded half to even to millionths.
    """
    largest, power, weights = max(sizes.values()), 1 - Decimal(alpha), {}
    for name, size in sizes.items():
        with localcontext(Context(50, ROUND_HALF_EVEN)) as context:
            exact = ((Decimal(largest) / size).ln() * power).exp() if size else Decimal(1)
            context.prec = 40
            weight = round(+exact, MOST_DECIMALS)
        if weight > LARGEST_WEIGHT:
            raise UsageError(
                f"--alpha {alpha}: the weight of source group {name!r} would be {weight:.0f}, and the largest allowed "
                f"is {LARGEST_WEIGHT}. Nothing was learned. Give a larger --alpha, or --weight for each group."
            )
        weights[compose_name(name)] = format(weight.normalize(), "f")
    return weights


def weigh_groups(con: duckdb.DuckDBPyConnection, weights: Mapping[str, str], range_bytes: int) -> None:
    """Fill table weighted_counts of the training in use. A group without a weight has 1.

    Memory does not grow with the counts: they are weighed range by range, twice unless all weights are whole numbers.
    """
    totals = {name: chunks for name, _, _, chunks, _ in run_sql(con, "get_source_groups")}
    exact = {name: Fraction(weights.get(compose_name(name), "1")) for name in totals}
    total = sum(weight * totals[name] for name, weight in exact.items())
    then = "Nothing was changed. Give smaller weights."
    refuse_overflow(math.ceil(total), f"The weighted counts add up to {int(total)}", then)
    denominator = math.lcm(*(weight.denominator for weight in exact.values()))
    numerators = [int(weight * denominator) for weight in exact.values()]
    feed(con, "make_group_weights", pa.table({"group_name": list(exact), "numerator": numerators}))
    ranges = list_ranges(con, range_bytes)
    least, places = 0, 0
    if denominator > 1:
        run_sql(con, "make_rests")
        for low, high in ranges:
            run_sql(con, "steps/weigh_range", first_chunk=low, end_chunk=high, denominator=denominator)
            run_sql(con, "add_rests")
        for rest, open_places in run_sql(con, "steps/find_raised", denominator=denominator):
            least, places = rest, open_places
    for low, high in ranges:
        run_sql(con, "steps/weigh_range", first_chunk=low, end_chunk=high, denominator=denominator)
        run_sql(con, "steps/put_weighed", least_rest=least, places=places)
        ((tied,),) = run_sql(con, "count_rest", least_rest=least)
        places = max(places - tied, 0)
    if not run_sql(con, "has_weighted_counts")[0][0]:  # an empty table stands for a training without weights
        raise UsageError("With these --weight, nothing is left to learn from. Nothing was changed.")
