"""Counting a corpus and learning from it. The package is also the function: `streambpe.train("runs/en", ["corpus/"])`.

Python sets every loaded subpackage as an attribute of its parent, so once anything below this package is imported,
`streambpe.train` is this module, whatever the parent had under that name. A function put in its place would break
`streambpe.train.trainer`; therefore the module itself can be called, and is commands.train.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

    from streambpe.train.training import TrainResult


class _CallablePackage(ModuleType):
    """This module's class: what a function has, besides all that a package has."""

    def __call__(self, *args: Any, **options: Any) -> TrainResult:
        """As commands.train, which is loaded with the first call."""
        from streambpe.train.commands import train

        return train(*args, **options)

    @property
    def __signature__(self) -> Signature:
        """For help() and editors."""
        from inspect import signature

        from streambpe.train.commands import train

        return signature(train)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickled by name, as functions are; so it can be sent to another process."""
        from importlib import import_module

        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _CallablePackage
