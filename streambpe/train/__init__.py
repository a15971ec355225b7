"""Counting a corpus and learning from it. The package is also the function: `streambpe.train("runs/en", ["corpus/"])`.

Python sets every loaded subpackage as an attribute of its parent, so once anything below this package is imported,
`streambpe.train` is this module, whatever the parent had under that name. A function put in its place would break
`streambpe.train.trainer`; therefore the module itself can be called; it calls commands.train.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

    from streambpe.train.training import TrainResult


class _CallablePackage(ModuleType):
    """The class of this module: a package that can also be called, like a function."""

    def __call__(self, *args: Any, **options: Any) -> TrainResult:
        """Call commands.train, which is loaded at the first call."""
        from streambpe.api import train

        result: TrainResult = train(*args, **options)
        return result

    @property
    def __signature__(self) -> Signature:
        """The signature of commands.train, for help() and editors."""
        from inspect import signature

        from streambpe.train.commands import train

        return signature(train)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle it by name, as functions are pickled, so that it can be sent to another process."""
        from importlib import import_module

        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _CallablePackage
