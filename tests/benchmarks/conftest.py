"""Modules of benchmarks/, which is no package: its scripts are run from there. An sdist has none."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from tests.runs import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """Loads a module of benchmarks/ by its name, for one test."""
    if not BENCHMARKS.is_dir():
        pytest.skip("an sdist has no benchmarks")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    loaded: set[str] = set()

    def load(name: str) -> ModuleType:
        before = set(sys.modules)
        module = importlib.import_module(name)
        loaded.update(set(sys.modules) - before)
        return module

    yield load
    for name in loaded:
        if getattr(sys.modules[name], "__file__", None) and str(BENCHMARKS) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def measured(benchmark):
    """benchmarks/measured.py."""
    return benchmark("measured")
