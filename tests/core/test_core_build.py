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
    rules = [f"{part}.{name}" for part in ("chunk", "super", "borders") for name in encoding._RULES]
    assert list(encoding._MODEL) == rules + fields_in_c("encode_model")[3:]
    assert list(encoding._RULES[3:]) == fields_in_c("pair_rules")[1:]
    assert list(Figures._fields) == fields_in_c("learn_figures")
    assert list(Rule.__struct_fields__) == fields_in_c("learn_rule")[: len(Rule.__struct_fields__)]


@pytest.mark.parametrize(
    ("compiler", "flag", "told"),
    [
        (None, "--no-such-flag", r"no such flag|unrecognized|unknown"),
        ("/nonexistent", "-O2", r"^The C compiler /nonexistent cannot be started .* unset CC, .*\.$"),
    ],
)
def test_a_build_that_fails_says_why(tmp_path, monkeypatch, compiler, flag, told):
    """In the compiler's words, or in a sentence without a traceback. No half library is left behind."""
    hook = load_hook()
    if compiler:
        monkeypatch.setenv("CC", compiler)
    with pytest.raises(SystemExit, match=told):
        hook.build(hook.compiler(), tmp_path / "_core.so", [flag])
    assert not list(tmp_path.iterdir())


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


def quietly(command: list[object], place: Path, env: dict[str, str]) -> str:
    """What a command says that works out."""
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
def test_files_of_strangers_under_the_sanitizers(sanitized):
    """Refused, or used as the slow replay uses them, and nothing is read or written out of bounds: about a minute.
    `make soak SOAK="--only fuzz"` tries as many as one likes."""
    cases = {"logs": 100, "importers": 20, "tokenizer_files": 10, "ranks": 10, "readers": 4, "runs": 6}  # fmt: skip
    for kind, number in cases.items():
        given = ("--only=fuzz", f"--case={kind}", f"--attempts={number}", "--seed=8000000")
        quietly([sys.executable, "-m", "tests.soak", *given], *sanitized)


@pytest.mark.long
def test_every_loop_under_the_sanitizers(sanitized):
    """No access out of bounds, no undefined behaviour, on whatever the tests of the core give it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", *CORE_TESTS]
    assert "[100%]" in quietly(command, *sanitized)


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


def wheel_built_by(zig: Path, folder: Path, **more: str) -> tuple[str, dict[str, bytes]]:
    """The name of a wheel, and its files."""
    place = checkout(folder)
    env = {key: value for key, value in os.environ.items() if key not in ("CC", "PYTHONPATH")} | more
    quietly([zig, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"], place, env)
    (path,) = (place / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        return path.name, {name: wheel.read(name) for name in wheel.namelist()}


@pytest.mark.long
def test_zig_builds_where_no_compiler_is(zig, tmp_path):
    """With nothing on the path: the wheel for this system has a library that loads."""
    _, files = wheel_built_by(zig, tmp_path, PATH="")
    (tmp_path / "_core.so").write_bytes(files["streambpe/core/_core.so"])
    loaded = ctypes.CDLL(str(tmp_path / "_core.so"))
    loaded.core_digest.restype = ctypes.c_char_p
    assert loaded.core_digest().decode() == load_hook().digest()


@pytest.mark.long
@pytest.mark.every(2)  # the C library of Windows takes zig minutes
@pytest.mark.parametrize(
    ("target", "begins"), [("linux-aarch64", b"\x7fELF"), ("windows-x64", b"MZ"), ("macos-arm64", b"\xcf\xfa\xed\xfe")]
)
def test_a_wheel_for_every_system(zig, target, begins, tmp_path):
    """Of each system one of those that `make wheels` makes: its name says for what, and its library is of that
    system's format."""
    name, files = wheel_built_by(zig, tmp_path, STREAMBPE_TARGET=target)
    assert name.endswith(f"-py3-none-{load_hook().TARGETS[target][1]}.whl")
    assert files["streambpe/core/_core.so.sha256"]
    assert files["streambpe/core/_core.so"].startswith(begins)
    assert load_hook().digest().encode() in files["streambpe/core/_core.so"]
