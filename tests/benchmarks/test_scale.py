"""benchmarks/scale.py and synthetic.py: what they compute. What they measure is no test."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from tests.samples import natural_text


def test_exponents_of_known_curves(benchmark):
    """A line, a root, a constant; one size has none, and a stage that was not seen at a size does not count there."""
    scale = benchmark("scale")
    assert scale.exponent([100, 300, 900], [5, 15, 45]) == pytest.approx(1)
    assert scale.exponent([100, 400, 1600], [3, 6, 12]) == pytest.approx(0.5)
    assert scale.exponent([100, 300], [7, 7]) == pytest.approx(0)
    assert scale.exponent([100], [7]) is None
    assert scale.exponent([100, 300, 900], [0, 15, 45]) == pytest.approx(1)
    assert scale.exponent([100, 300], [0, 15]) is None


def test_a_forecast_goes_on_stage_by_stage(benchmark):
    """Counting grows as the text, beside what it takes at all, and learning as its root; starting stays as it is, and
    memory ends at the limit."""
    scale = benchmark("scale")

    def at(mb: float) -> dict[str, dict[str, float]]:
        counting, learning = mb / 10 + 3, (mb / 100) ** 0.5 * 4
        stages = {
            "counting": {"wall, s": counting, "cpu, s": 2 * counting, "memory, MB": 200.0, "disk, MB": mb},
            "learning": {"wall, s": learning, "cpu, s": learning, "memory, MB": 300.0, "disk, MB": mb / 2},
        }
        whole = {"wall, s": counting + learning + 1, "cpu, s": 2 * counting + learning + 1}
        return {"whole": {**whole, "memory, MB": mb**0.5 * 5, "disk, MB": mb}, **stages}

    told = scale.forecast("uw", {mb: at(mb) for mb in (100, 400, 1600)}, 100_000, 1000)
    expected = at(100_000)["whole"] | {"memory, MB": 1000}
    assert told == {figure: pytest.approx(value) for figure, value in expected.items()}
    report = "\n".join(scale.tables({("plain", "real"): {mb: at(mb) for mb in (400, 1600)}}, 1000))
    assert "| learning | wall, s | 8.0 | 16.0 | 0.50 |" in report
    assert "| 100 GB | 10,130 |" in report
    jumped = {mb: at(mb) for mb in (400, 1600)}
    jumped[1600]["learning"] |= {"wall, s": 400.0, "cpu, s": 400.0}  # from disk now
    jumped[1600]["whole"] |= {"wall, s": 564.0, "cpu, s": 727.0}
    assert scale.forecast("uw", jumped, 16_000, 1000)["wall, s"] == pytest.approx(1603 + 4000 + 1)
    assert "Forecast" not in "\n".join(scale.tables({("plain", "real"): {mb: at(mb) for mb in (100, 400)}}, 1000))


def test_every_job_is_one_that_train_takes(benchmark, tmp_path):
    """The options that the jobs are made of go together; a training of nothing would be refused for another reason."""
    from streambpe.config import TrainConfig

    scale = benchmark("scale")
    for job in ("plain", "boundless", "uw"):
        options = scale.options_of(job, 131_072)
        named = dict(zip(options[::2], options[1::2], strict=True))
        assert named.pop("--vocab-size") == "131072"
        transition = named.get("--transition")
        superwords = named.get("--superwords", "none")
        config = TrainConfig.from_options(
            vocab_size=131_072, superwords=superwords, transition=int(transition) if transition else None
        )
        assert config.superwords == superwords


def test_synthetic_text_is_the_same_again_and_made_of_the_text(benchmark, tmp_path, monkeypatch):
    """The same bytes for the same seed, others for another; most pairs of neighbours are pairs of the text; some words
    are new."""
    synthetic = benchmark("synthetic")
    monkeypatch.setattr(synthetic, "CHAINS", 16)
    monkeypatch.setattr(synthetic, "STEPS", 40)
    text = natural_text(3, 60_000)
    source = tmp_path / "text.txt"
    source.write_text(text, encoding="utf-8")
    made = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        output = tmp_path / f"{name}.jsonl"
        done = synthetic.write(str(source), str(output), 0.05, seed)
        documents = [json.loads(line)["text"] for line in output.read_text(encoding="utf-8").splitlines()]
        assert done >= 50_000
        assert sum(len(document.encode()) for document in documents) == done
        made.append(documents)
    assert made[0] == made[1] != made[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl", "c.jsonl", "text.txt"]
    words = text.split(" ")
    known, pairs = set(words), set(itertools.pairwise(words))
    found = [word for document in made[0] for word in document.split(" ")[1:]]
    new = Counter(word for word in found if word not in known)
    assert 0 < new.total() < len(found) / 20
    there = [pair in pairs for pair in itertools.pairwise(found)]
    assert sum(there) > 0.8 * len(there)
