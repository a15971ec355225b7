"""What is put inside the page: files of this package, and data packed so that the page stays small.

packed(b"...")   gzip, in base64; unpack.js reads it in the browser
"""

from __future__ import annotations

import base64
import gzip
from importlib import resources as package


def read_asset(name: str) -> str:
    """A style sheet or script of this package."""
    return package.files("streambpe").joinpath("inspect", name).read_text(encoding="utf-8")


def packed(data: bytes) -> str:
    """Data for an element of the page; the same data gives the same text."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
