"""Options of learning that change nothing beside the others: refused where they are given, never ignored.

    train RUN --max-batch 100                    refused: only --batch paper has passes of a bounded size
    train RUN --batch paper --max-batch 100      taken

What a training was started with is not asked again when it grows. Options that cannot stand together: config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streambpe.config import TrainConfig
from streambpe.errors import UsageError
from streambpe.options import options_of

_OPTIONS = options_of(TrainConfig)


def idle_options(config: TrainConfig) -> dict[str, str]:
    """By the names of their fields: what each of the options that this training has no use for is about."""
    found: dict[str, str] = {}
    if config.batch != "paper":
        found |= dict.fromkeys(("cap_divisor", "max_batch"), "bounds the passes of --batch paper")
    if config.tau is None:
        found["token_order"] = "is about tokens that were deleted, and without --tau none is"
    if not config.specials:
        found["specials_first"] = "is about special tokens, and there is none (--special)"
    return found


def refuse_idle_options(config: TrainConfig, given: Mapping[str, Any]) -> None:
    """An error if one of the options that are given is idle, and says something else than its default."""
    for name, about in idle_options(config).items():
        option = _OPTIONS[name]
        if given.get(name) not in (None, option.default):
            shown = option.flag if option.switch else f"{option.flag} {given[name]}"
            raise UsageError(f"{shown} {about}. Nothing was changed. Leave it out.")
