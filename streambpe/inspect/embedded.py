"""What is put inside the page: files of this package, and data packed so that the page stays small.

fill("head.html", title="runs/en", style="...")   what stands in braces there is filled in
packed(b"...")                                    gzip, in base64; unpack.js reads it in the browser
"""

from __future__ import annotations

import base64
import gzip
from importlib import resources as package


def read_assets(*names: str) -> str:
    """Style sheets or scripts of this package, one after another."""
    return "".join(package.files("streambpe").joinpath("inspect", name).read_text(encoding="utf-8") for name in names)


def fill(file: str, /, **values: object) -> str:
    """A piece of HTML of this package."""
    return read_assets(file).format(**values)


def packed(data: bytes) -> str:
    """Data for an element of the page; the same data gives the same text."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
