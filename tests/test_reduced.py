"""The reduced alphabet is learned by whoever needs it first, and by nobody again."""

from __future__ import annotations

import threading
import time

import numpy as np

from streambpe.encode.reduced import CURLY, ReducedAlphabet


def test_a_page_is_learned_once(monkeypatch):
    """Threads that wait to learn a page find it learned: it is being read by then, and must not change."""
    alphabet = ReducedAlphabet(True)
    learned = []
    learn = alphabet._learn
    monkeypatch.setattr(alphabet, "_learn", lambda page: learned.append(page) or learn(page))
    results = []
    points = np.array([0x2019, ord("a")], np.int32)
    threads = [threading.Thread(target=lambda: results.append(alphabet.reduce(points).tobytes())) for _ in range(4)]
    with alphabet._lock:
        for thread in threads:
            thread.start()
        time.sleep(0.2)  # all of them wait for the first page
    for thread in threads:
        thread.join()
    assert sorted(learned) == [0, 0x20]
    assert set(results) == {f"{CURLY}a".encode()}
