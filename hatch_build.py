"""Builds the compiled core: streambpe/core/core.c, which includes the other files, -> one shared library beside it,
loaded with ctypes.

Run by pip through hatchling, or by hand in a checkout: `python hatch_build.py`. The system's C compiler is used
($CC, cc, gcc, clang); where there is none, zig from PyPI, which is then asked for as a build requirement.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
CORE = ROOT / "streambpe" / "core"
LIBRARY = "_core.so"  # on every system: it is loaded by its path
FLAGS = [
    "-std=c99",
    "-O3",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",  # functions of one type, of which not all look at everything
    "-Werror=implicit-function-declaration",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
]
ZIG = "ziglang>=0.13"
# what wheels are built for: zig's name for it, and the wheel's tag. The glibc is old on purpose.
TARGETS = {
    "linux-x86_64": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    "linux-aarch64": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "musl-x86_64": ("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "musl-aarch64": ("aarch64-linux-musl", "musllinux_1_2_aarch64"),
    "macos-x86_64": ("x86_64-macos.11.0", "macosx_11_0_x86_64"),
    "macos-arm64": ("aarch64-macos.11.0", "macosx_11_0_arm64"),
    "windows-x64": ("x86_64-windows-gnu", "win_amd64"),
    "windows-arm64": ("aarch64-windows-gnu", "win_arm64"),
}


def digest() -> str:
    """What a library is asked for when it is loaded: whether it was made of these sources (core/binding.py)."""
    whole = hashlib.sha256()
    for file in sorted([*CORE.glob("*.c"), *CORE.glob("*.h")]):
        whole.update(file.name.encode() + b"\0" + file.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return whole.hexdigest()[:32]


def prototypes() -> str:
    """What the library says of its functions, so that core/binding.py can call them: name, result, arguments.

    EXPORT int64_t pages_needed(const uint8_t *text, int64_t size, uint8_t *pages) {   ->   pages_needed:l:plp
    """
    code = "".join(file.read_text(encoding="utf-8") for file in sorted(CORE.glob("*.c")))
    kinds = {"void": "v", "int": "i", "int32_t": "i", "int64_t": "l", "uint64_t": "L"}

    def kind(declared: str) -> str:
        return "t" if "char *" in declared else "p" if "*" in declared else kinds[declared.split()[0]]

    return " ".join(
        f"{name}:{kind(result)}:{''.join(map(kind, arguments.split(',')))}"
        for result, name, arguments in re.findall(r"^EXPORT ([\w ]+?[ *]+)(\w+)\(([^)]*)\) \{", code, flags=re.M)
    )


def places(library: bytes) -> list[tuple[int, int]]:
    """Where the code and the data of a library begin and end: what strip, patchelf and signing leave as it is."""

    def read(how: str, at: int) -> Any:
        return struct.unpack_from(how, library, at)

    if library.startswith(b"\xca\xfe\xba\xbe"):  # macOS, of several processors
        each = [read(">8xII", 8 + 20 * i) for i in range(*read(">I", 4))]
        return [(at + a, at + b) for at, size in each for a, b in places(library[at : at + size])]
    found, at = [], 32
    if library.startswith(b"\xcf\xfa\xed\xfe"):  # macOS: the sections of each segment
        for _ in range(*read("<I", 16)):
            command, size, sections = read("<II56xI", at)
            rows = [read("<40xQI12xI", at + 72 + 80 * i) for i in range(sections * (command == 0x19))]
            found += [(start, long) for long, start, flags in rows if start and flags & 0xFF != 1]  # 1: not in the file
            at += size
    elif library.startswith(b"MZ"):  # Windows
        (at,) = read("<I", 60)
        sections, optional = read("<6xH12xH", at)
        rows = [read("<8xI4xII12xI", at + 24 + optional + 40 * i) for i in range(sections)]
        # less what fills a block, and what is only for debuggers
        found = [(start, min(long, room)) for long, room, start, flags in rows if not flags & 0x2000000]
    elif library.startswith(b"\x7fELF\2\1"):
        (at,), (size, sections) = read("<Q", 40), read("<HH", 58)
        rows = [read("<4xIQ8xQQ", at + size * i) for i in range(sections)]
        found = [
            (start, long) for kind, flags, start, long in rows if kind == 1 and flags & 2
        ]  # in the file, and loaded
    return [(start, start + long) for start, long in found]


def record(library: bytes) -> str:
    """What binding.py compares before it loads a library: its size, and digests for a file of that size and of others.

    A file of the same size has to be the same on Linux up to its last code or data, where no tool leaves the size; and
    as a whole where it is not known which parts those are (32 bits, or big-endian).
    """
    kept = places(library)
    same = [(0, max(kept)[1] if kept else len(library))] if library.startswith(b"\x7fELF") or not kept else kept
    lines = [str(len(library))]
    for each in (same, kept):
        digest = hashlib.sha256(b"".join(library[a:b] for a, b in each)).hexdigest()
        lines.append(" ".join([digest, *(f"{a}-{b}" for a, b in each)]))
    return "\n".join(lines)


def system_compiler() -> list[str] | None:
    """The command of a C compiler of this machine with our flags and then those that a packager sets, or None."""
    named = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    theirs = " ".join(os.environ.get(name, "") for name in ("CPPFLAGS", "CFLAGS", "LDFLAGS", "ARCHFLAGS"))
    return [*shlex.split(named), *FLAGS, *shlex.split(theirs)] if named else None


def zig() -> list[str]:
    """The command of zig's compiler."""
    return [sys.executable, "-m", "ziglang", "cc", *FLAGS]


def compiler() -> list[str]:
    """What compiles here: the system's compiler, else zig's."""
    return system_compiler() or zig()


def build(command: list[str], target: Path, flags: list[str] | None = None) -> Path:
    """Compile the sources into one library; whole or not at all."""
    temporary = target.with_name(f"{target.name}.{os.getpid()}.new")
    says = [f'-DCORE_DIGEST="{digest()}"', f'-DCORE_PROTOTYPES="{prototypes()}"']
    if "-macos" in " ".join(flags or []) or (sys.platform == "darwin" and "-target" not in (flags or [])):
        says.append(f"-Wl,-install_name,@rpath/{LIBRARY}")  # else the library names the folder where it was built
    arguments = [*(flags or []), *says, "-o", str(temporary), str(CORE / "core.c")]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    except OSError as why:
        raise SystemExit(
            f"The C compiler {command[0]} cannot be started ({why.strerror}), so nothing was installed; unset CC, and "
            f"the installation finds a compiler itself, or fetches one from PyPI."
        ) from None
    if done.returncode:
        raise SystemExit(f"The core did not compile: {shlex.join(command)} said\n{done.stderr}")
    written = record(temporary.read_bytes())
    temporary.replace(target)
    target.with_name(f"{target.name}.sha256").write_text(written)
    return target


def platform_tag() -> str:
    """The wheel's platform; one that is built for another machine names it in STREAMBPE_TARGET."""
    target = os.environ.get("STREAMBPE_TARGET")
    if target:
        return TARGETS[target][1]
    # a Python of two architectures compiles for the one it runs on
    tag = sysconfig.get_platform().replace("universal2", platform.machine()).replace("-", "_").replace(".", "_")
    if not tag.startswith("macosx"):
        return tag
    # by ARCHFLAGS and MACOSX_DEPLOYMENT_TARGET, which the compiler follows, too
    from hatchling.builders.macos import process_macos_plat_tag

    return process_macos_plat_tag(tag, compat=False)


def build_for_wheel() -> Path:
    """The library of the wheel that is being made."""
    target = os.environ.get("STREAMBPE_TARGET")
    if target is None:
        if sys.platform == "darwin":  # as old as the tag says, and not as new as this machine
            os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", sysconfig.get_platform().split("-")[1])
        return build(compiler(), CORE / LIBRARY)
    folder = ROOT / "build" / target
    folder.mkdir(parents=True, exist_ok=True)
    # -g0: zig writes what debuggers read, and with it the folders of this machine
    return build(zig(), folder / LIBRARY, ["-g0", "-target", TARGETS[target][0]])


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand, without hatchling
    BuildHookInterface = None
else:

    class CoreBuildHook(BuildHookInterface):  # type: ignore[type-arg]
        """What hatchling runs for a wheel and for an editable installation."""

        def dependencies(self) -> list[str]:
            cross = "STREAMBPE_TARGET" in os.environ
            return [ZIG] if cross or system_compiler() is None else []

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if self.target_name != "wheel":
                return
            file = build_for_wheel()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"
            if version != "editable":
                for ending in ("", ".sha256"):
                    build_data["force_include"][f"{file}{ending}"] = f"streambpe/core/{LIBRARY}{ending}"


if __name__ == "__main__":
    print(build(compiler(), CORE / LIBRARY, sys.argv[1:]))
