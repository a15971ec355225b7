"""The core built in every way it is built: by the system's compiler, by zig, for other systems, and with sanitizers."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from streambpe.core import binding, encoding
from streambpe.core.learner import Figures, Rule
from tests.runs import ROOT
from tests.sanitizers import build_sanitized, checkout, load_hook

# what runs under the sanitizers: every test that gives the core hostile input
CORE_TESTS = (
    "tests/text/test_chunker.py",
    "tests/sources/test_json_lines.py",
    "tests/core/test_chunk_lists.py",
    "tests/core/test_pairs.py",
    "tests/core/test_runs.py",
    "tests/encode/test_encode_core.py",
    "tests/train/test_engine.py",
    "tests/core/test_learner.py",
)


def digest_in(library: Path) -> str:
    loaded = ctypes.CDLL(str(library))
    loaded.core_digest.restype = ctypes.c_char_p
    return loaded.core_digest().decode()


def code_of_the_core() -> str:
    """All its C, without comments."""
    files = sorted((ROOT / "streambpe" / "core").glob("*.[ch]"))
    return re.sub(r"/\*.*?\*/", "", "\n".join(file.read_text(encoding="utf-8") for file in files), flags=re.S)


def fields_in_c(name: str) -> list[str]:
    body = re.search(r"typedef struct \{([^{}]*)\} " + name + ";", code_of_the_core()).group(1)
    return re.findall(r"(\w+)(?=[,;])", body)


def test_every_exported_function_is_bound():
    """As the library says of each how it is called; a prototype that hatch_build.py cannot read would be left out."""
    functions = {name for name, value in vars(binding.library()).items() if isinstance(value, ctypes._CFuncPtr)}
    assert set(re.findall(r"^EXPORT .*?(\w+)\(", code_of_the_core(), flags=re.M)) == functions


def test_a_structure_in_python_was_not_the_one_in_c():
    assert [name for name, _ in encoding._Model._fields_] == fields_in_c("encode_model")
    assert [name for name, _ in encoding._PairRules._fields_[3:]] == fields_in_c("pair_rules")[1:]
    assert list(Figures._fields) == fields_in_c("learn_figures")
    assert list(Rule.__struct_fields__) == fields_in_c("learn_rule")[: len(Rule.__struct_fields__)]


def test_a_build_that_fails_says_what_the_compiler_said(tmp_path):
    """And leaves no half library behind."""
    hook = load_hook()
    with pytest.raises(SystemExit, match=r"no such flag|unrecognized|unknown"):
        hook.build(hook.compiler(), tmp_path / "_core.so", ["--no-such-flag"])
    assert not list(tmp_path.iterdir())


def test_a_compiler_that_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    """Without a traceback, with what to do."""
    hook = load_hook()
    monkeypatch.setenv("CC", "/nonexistent")
    with pytest.raises(SystemExit, match=r"^The C compiler /nonexistent cannot be started .* unset CC, .*\.$"):
        hook.build(hook.compiler(), tmp_path / "_core.so")


def test_a_wheel_of_one_architecture_was_tagged_for_two(monkeypatch):
    """A Python for two builds for the machine's; and a packager's flags are heeded."""
    hook = load_hook()
    monkeypatch.delenv("STREAMBPE_TARGET", raising=False)
    monkeypatch.setattr(hook.sysconfig, "get_platform", lambda: "macosx-11.0-universal2")
    monkeypatch.setattr(hook.platform, "machine", lambda: "arm64")
    assert hook.platform_tag() == "macosx_11_0_arm64"
    for name, value in {"CC": "cc -m64", "CFLAGS": "-g -fstack-protector", "LDFLAGS": "-Wl,-z,now"}.items():
        monkeypatch.setenv(name, value)
    # after ours, so that theirs are obeyed where both say something
    assert hook.compiler() == ["cc", "-m64", *hook.FLAGS, "-g", "-fstack-protector", "-Wl,-z,now"]


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """(a checkout whose core is built with the sanitizers, the environment in which it is used)."""
    place = tmp_path_factory.mktemp("sanitized")
    return place, build_sanitized(place) or pytest.skip("this system's compiler has no sanitizers")


@pytest.mark.long
def test_files_of_strangers_under_the_sanitizers(sanitized):
    """Refused, or used as the slow replay uses them, and nothing is read or written out of bounds: about a minute.
    `make soak SOAK="--only fuzz"` tries as many as one likes."""
    place, env = sanitized
    cases = {"logs": 100, "importers": 20, "tokenizer_files": 10, "ranks": 10, "progress": 8, "ids": 10,
             "readers": 4, "runs": 6}  # fmt: skip
    for kind, number in cases.items():
        given = ("--only=fuzz", f"--case={kind}", f"--attempts={number}", "--seed=8000000")
        command = [sys.executable, "-m", "tests.soak", *given]
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.long
def test_every_loop_under_the_sanitizers(sanitized):
    """No access out of bounds, no undefined behaviour, on whatever the tests of the core give it."""
    place, env = sanitized
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", *CORE_TESTS]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "[100%]" in done.stdout


@pytest.fixture(scope="module")
def zig(tmp_path_factory) -> Path:
    """A Python that has zig from PyPI, and hatchling."""
    place = tmp_path_factory.mktemp("zig")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = [load_hook().ZIG, "hatchling"]
    done = subprocess.run([python, "-m", "pip", "install", "-q", *wanted], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"zig is not to be had here: {done.stderr[-300:]}")
    return python


@pytest.mark.long
def test_zig_builds_where_no_compiler_is(zig, tmp_path):
    """With nothing on the path: the wheel for this system has a library that loads."""
    place = checkout(tmp_path)
    env = {key: value for key, value in os.environ.items() if key not in ("CC", "PYTHONPATH")} | {"PATH": ""}
    command = [zig, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next((place / "dist").glob("*.whl"))) as wheel:
        library = wheel.extract("streambpe/core/_core.so", tmp_path / "out")
    assert digest_in(Path(library)) == load_hook().digest()


@pytest.mark.long
@pytest.mark.every(2)  # the C library of Windows takes zig minutes
@pytest.mark.parametrize("target", ["linux-aarch64", "windows-x64", "macos-arm64"])
def test_a_wheel_for_every_system(zig, target, tmp_path):
    """Of each system one of those that `make wheels` makes: its name says for what, and its library is of that
    system's format."""
    place = checkout(tmp_path)
    command = [zig, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"STREAMBPE_TARGET": target}
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = (place / "dist").glob("*.whl")
    assert path.name.endswith(f"-py3-none-{load_hook().TARGETS[target][1]}.whl")
    with zipfile.ZipFile(path) as wheel:
        library = wheel.read("streambpe/core/_core.so")
        assert wheel.read("streambpe/core/_core.so.sha256")
    begins = {"linux": b"\x7fELF", "macos": b"\xcf\xfa\xed\xfe", "windows": b"MZ"}[target.split("-")[0]]
    assert library.startswith(begins)
    assert load_hook().digest().encode() in library
