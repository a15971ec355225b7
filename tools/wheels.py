"""Looks into every wheel of dist/: `make test-wheels`, after `make wheels`.

A wheel is named for one system. Its library must be of that system and processor, need nothing but the C library (on
Linux no newer than the tag says), export every function that the binding calls, and name no folder of the machine that
built it. Prints a line for each wheel; ends with 1 where something is wrong.

With qemu-aarch64-static and apt (Debian 12) the aarch64 wheel is also used: a Python of that processor is unpacked, not
installed, and runs the tests of the core. With mmdebstrap and root the x86_64 wheel is used in a Debian without
compiler and git.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import lief
import pip

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import hatch_build  # noqa: E402

# What a library may need, by the beginning of its wheel's platform.
C_LIBRARIES = {
    "manylinux": r"libc\.so\.6",
    "musllinux": r"libc\.so",
    "macosx": r"/usr/lib/libSystem\.B\.dylib",
    "win": r"api-ms-win-crt-.*\.dll|KERNEL32\.dll",
}
PROCESSORS = {"x86_64": "X86_64", "aarch64": "ARM64|AARCH64", "arm64": "ARM64", "amd64": "AMD64"}
PACKAGES = [
    "python3.11", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libexpat1",
    "zlib1g", "libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libsqlite3-0", "libgcc-s1", "libstdc++6", "libuuid1",
    "libcrypt1",
]  # fmt: skip
CORE_TESTS = ["tests/core/test_learner.py", "tests/core/test_runs.py", "tests/core/test_pairs.py"]

BARE = """
set -e
cd
for tool in cc gcc clang git; do if command -v $tool; then exit 1; fi; done
python3 -m venv v
v/bin/pip install -q ./*.whl
PATH="v/bin:$PATH"
streambpe train run sample --vocab-size 2000
echo Hello | streambpe encode run | streambpe decode run | grep -qx Hello
streambpe report run
streambpe check run --replay
"""


def faults(wheel: Path) -> list[str]:
    """What is wrong with a wheel's library; prints what it needs and offers."""
    tag = wheel.stem.split("-")[-1]
    system, processor = tag.split("_")[0], tag.split("_", 3)[-1] if tag.startswith(("many", "musl", "mac")) else tag[4:]
    found = []
    with zipfile.ZipFile(wheel) as file:
        data = file.read(f"streambpe/core/{hatch_build.LIBRARY}")
    library = lief.parse(list(data))
    machine = str(getattr(library.header, "machine_type", getattr(library.header, "cpu_type", "")))
    machine = machine or str(library.header.machine)
    if not re.search(PROCESSORS[processor], machine, re.IGNORECASE):
        found.append(f"is for {machine}, not {processor}")
    own = f"@rpath/{hatch_build.LIBRARY}"
    needs = sorted({name for each in library.libraries if (name := getattr(each, "name", each)) != own})
    found += [f"needs {name}" for name in needs if not re.fullmatch(C_LIBRARIES[system], name)]
    newest = max((tuple(map(int, v.split(b"."))) for v in re.findall(rb"GLIBC_(\d+\.\d+)", data)), default=(0,))
    if system == "manylinux" and newest > tuple(map(int, tag.split("_")[1:3])):
        found.append(f"needs glibc {newest}")
    offered = {
        getattr(each, "name", each).removeprefix("_" * (system == "macosx")) for each in library.exported_functions
    }
    called = {line.split(":")[0] for line in hatch_build.prototypes().split()} | {"core_digest", "core_prototypes"}
    found += [f"lacks {name}" for name in sorted(called - offered)]
    if str(ROOT).encode() in data or b"/home/" in data:
        found.append("names a folder of the machine that built it")
    print(f"{wheel.name}: {len(called)} functions, needs {', '.join(needs)}{' ' + str(newest) if newest[0] else ''}")
    return [f"{wheel.name} {fault}" for fault in found]


def tested_under_qemu(wheel: Path) -> str:
    """Run the tests of the core on an aarch64 wheel; the last line of what they print, or why they did not run."""
    if not (shutil.which("qemu-aarch64-static") and shutil.which("apt-get")):
        return "not run: it takes qemu-aarch64-static and apt-get"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "lists/partial").mkdir(parents=True)
        apt = ["apt-get", "-q", "-o", "APT::Architectures=arm64", "-o", f"Dir::State::Lists={place}/lists"]
        subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
        (place / "debs").mkdir()
        named = [f"{package}:arm64" for package in PACKAGES]
        subprocess.run([*apt, "download", *named], cwd=place / "debs", check=True, stdout=subprocess.DEVNULL)
        for package in (place / "debs").iterdir():
            subprocess.run(["dpkg", "-x", package, place / "root"], check=True)
        python = ["qemu-aarch64-static", "-L", place / "root", place / "root/usr/bin/python3.11"]
        # by the pip of this Python, but run by that one: a marker asks for the processor that pip runs on
        install = [*python, Path(pip.__file__).parent, "install", "-q", "--no-compile", f"--target={place}/site"]
        subprocess.run([*install, "--only-binary=:all:", str(wheel), "pytest", "hypothesis"], check=True)
        shutil.copytree(ROOT / "tests", place / "tests", ignore=shutil.ignore_patterns("golden", "__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)
        command = [*python, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not long", "-rN", "-v", *CORE_TESTS]
        env = {**os.environ, "PYTHONPATH": str(place / "site")}
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return done.stdout.splitlines()[-1].strip("= ")


def tested_in_a_bare_debian(wheel: Path) -> str:
    """Install the wheel where there is no compiler and no git, and use it; what was said, or why this did not run."""
    if not (shutil.which("mmdebstrap") and os.geteuid() == 0):
        return "not run: it takes mmdebstrap and root"
    certificates = "/etc/ssl/certs/ca-certificates.crt"  # of this machine: a proxy may have its own
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
    command += [f"--customize-hook=copy-in {wheel} {ROOT}/tests/data/sample /root"]
    command += [f"--customize-hook=copy-in {certificates} /etc/ssl/certs"]
    command += ['--customize-hook=chroot "$1" sh -c "$BARE"', "--format=null", "bookworm"]
    env = {**os.environ, "HOME": "/root", "BARE": BARE}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(done.stdout)
    return done.stdout.splitlines()[-1]


def main() -> None:
    """Look into all wheels of dist/."""
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    missing = {tag for _, tag in hatch_build.TARGETS.values()} - {wheel.stem.split("-")[-1] for wheel in wheels}
    wrong = [fault for wheel in wheels for fault in faults(wheel)] + [f"no wheel for {tag}" for tag in sorted(missing)]
    if wrong:
        sys.exit("\n".join(wrong))
    arm, intel = (wheel for wheel in wheels if "manylinux" in wheel.stem)
    print(f"{intel.name} in a bare Debian: {tested_in_a_bare_debian(intel)}")
    print(f"{arm.name} under qemu: {tested_under_qemu(arm)}")


if __name__ == "__main__":
    main()
