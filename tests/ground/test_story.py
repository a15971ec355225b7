"""docs/story.md names functions in the order in which a training calls them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.runs import ROOT


@pytest.mark.long
def test_the_story_of_one_word_is_what_happens():
    """Each function that the page names is called, and after those before it."""
    if not (ROOT / "tools").is_dir():
        pytest.skip("an sdist has no tools")
    command = [sys.executable, "tools/small_training.py", "--calls"]
    calls = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    named = re.findall(r"`([\w/]+\.py: [\w.]+)`", (ROOT / "docs/story.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [name for name in named if name not in calls] == []
    assert sorted(named, key=calls.index) == named
