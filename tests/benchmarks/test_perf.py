"""What make perf reads of a file of callgrind's."""

from __future__ import annotations

FILE = """# callgrind format
ob=(1) /usr/lib/libc.so.6
fn=(1) memcpy
10 5
+2 7
cob=(2) /tree/streambpe/core/_core.so
cfn=(2) count
calls=3 40
12 900
* 1
ob=(2)
fn=(2)
40 600
-1 300
ob=(1)
fn=(1)
20 2
"""


def test_instructions_are_those_of_a_library_without_what_it_calls(benchmark, tmp_path):
    """A line behind `calls=` is what the callee took, and is counted where the callee stands."""
    perf, file = benchmark("perf"), tmp_path / "of"
    file.write_text(FILE)
    assert perf.instructions(file) == 5 + 7 + 1 + 600 + 300 + 2
    assert perf.instructions(file, "_core.so") == 900
