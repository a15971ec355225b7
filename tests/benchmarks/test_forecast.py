"""benchmarks/forecast.py: what it computes of measured times."""

from __future__ import annotations

import pytest


def test_tasks_go_to_whoever_is_free_in_their_order(benchmark):
    """Known schedules: as many workers as tasks, one worker, and a long task that comes last."""
    forecast = benchmark("forecast")
    assert forecast.scheduled([3, 2, 1], 3) == 3
    assert forecast.scheduled([3, 2, 1], 1) == 6
    assert forecast.scheduled([1, 1, 1, 1, 4], 2) == 6
    assert forecast.scheduled([], 2) == 0


def test_a_larger_corpus_is_more_tasks_at_the_measured_speeds(benchmark, tmp_path):
    """Whatever it is cut into, all of it takes as many times as long; and a file gives back what was measured."""
    forecast = benchmark("forecast")
    mb = 1 << 20
    counting = forecast.Question(
        "count_stretches", tuple((2 * mb, round(0.2 + i / 100, 2)) for i in range(50)), 1.5, 0.25
    )
    sums = forecast.Question("sum_range", ((0, 0.5),), 0.5, 0.0)
    for times, workers in ((1, 2), (100, 2), (1000, 64)):
        tasks = forecast.grown(counting, times, workers)
        assert sum(tasks) == pytest.approx(times * sum(seconds for _, seconds in counting.tasks))
        size = 100 * mb * times / len(tasks)
        assert 15 * mb < size < 257 * mb
        assert forecast.grown(sums, times, workers) == [0.5] * times
    one = forecast.forecast([counting, sums], 1.0, 4.0, 3.0, 1, 1, 0.5)
    assert one["alone"] == pytest.approx(3 + 0.25)  # noting costs nothing in the second question
    assert one["starting"] == pytest.approx(10)
    assert one["whole"] == pytest.approx(one["tasks"] + 13.25)
    many = forecast.forecast([counting, sums], 1.0, 4.0, 3.0, 100, 64, 0.5)
    assert many["alone"] == pytest.approx(30.25)
    assert many["tasks"] < one["tasks"] * 100 / 32
    path = tmp_path / "forecast.tsv"
    forecast.write_tsv(path, {"mb": "100"}, [counting, sums], 1.0, 4.0, 3.0)
    assert forecast.read_tsv(path) == ({"mb": "100"}, [counting, sums], 1.0, 4.0, 3.0)
    assert "| 10 GB |" in "\n".join(forecast.tables([counting, sums], 1.0, 4.0, 3.0, 100, 0.5))
