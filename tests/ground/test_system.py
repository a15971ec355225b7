"""What differs by system, asked for where it is missing: cores, control groups, memory, files, names, locks."""

import ast
import contextlib
import errno
import os
import subprocess
import sys
import types
import unicodedata
from pathlib import Path

import psutil
import pytest

from streambpe import system
from streambpe.errors import UsageError
from streambpe.sources.find import find_sources
from streambpe.store.groups import GroupRules
from streambpe.store.training_files import check_name

PACKAGE = Path(system.__file__).parent


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A system whose /proc and control groups are files; says which group this process is in, and what files hold."""
    monkeypatch.setattr(system, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(system, "_CONTROL_GROUPS", tmp_path)

    def put(group: str, files: dict[str, object]) -> None:
        for name, text in {"proc/self/cgroup": group, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    return put


V1 = "5:devices:/\n4:cpu,memory:/jobs/17\n0::/"


@pytest.mark.parametrize(
    ("group", "files"),
    [
        ("0::/slice/job", {"slice/job/memory.max": "max", "slice/memory.max": 700, "slice/job/memory.high": 900}),
        (V1, {"memory/jobs/17/memory.limit_in_bytes": 2**63 - 4096, "memory/jobs/memory.limit_in_bytes": 700}),
        (V1, {"memory/memory.limit_in_bytes": 700, "devices/memory.limit_in_bytes": 1}),
        (V1, {"memory/17/memory.limit_in_bytes": 700, "memory/memory.limit_in_bytes": 9000}),
        ("0::/../../outside", {"memory.max": 700}),
    ],
    ids=["version 2", "version 1", "a container of version 1", "a group in one", "a container of version 2"],
)
def test_the_tightest_limit_of_nested_control_groups_binds(machine, group, files):
    """A laptop's user slice, a container in a container, a group that is seen from a namespace."""
    machine(group, files)
    assert system.available_memory() == 700


def test_without_control_groups_all_memory_is_available(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "_PROC", tmp_path)
    assert system.available_memory() == psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 2),
        ("0::/a/b", {"a/b/cpu.max": "5000 100000"}, 1),
        ("3:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": -1, "cpu/x/cpu.cfs_period_us": 100000}, 64),
        ("3:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": 300000, "cpu/x/cpu.cfs_period_us": 100000}, 3),
    ],
)
def test_cores_that_the_control_group_pays_for(machine, monkeypatch, group, files, cores):
    """docker --cpus 1.5 on a machine of 64 cores: two threads, not 64."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.delattr(os, "process_cpu_count", raising=False)
    machine(group, files)
    assert system.usable_cores() == cores


def test_cores_where_the_system_cannot_say_which(monkeypatch, tmp_path):
    """macOS and Windows have no sched_getaffinity; Python 3.13 has a function for it."""
    monkeypatch.setattr(system, "_PROC", tmp_path)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "process_cpu_count", raising=False)
    for name, told, cores in (("cpu_count", 5, 5), ("cpu_count", None, 1), ("process_cpu_count", 3, 3)):
        monkeypatch.setattr(os, name, lambda told=told: told, raising=False)
        assert system.usable_cores() == cores


@pytest.fixture
def family():
    """A process with a child; both rest until the test ends."""
    child = "import sys; data = b'x' * 30_000_000; print('up', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"up"
        yield process.pid
        process.stdin.close()


def test_memory_of_a_tree_counts_children_and_shared_pages_once(family, monkeypatch):
    whole = system.tree_memory(family)
    assert whole > 30_000_000, "the child's bytes are in it"
    rss = sum(p.memory_info().rss for p in [psutil.Process(family), *psutil.Process(family).children(recursive=True)])
    assert whole <= rss
    monkeypatch.setattr(psutil, "LINUX", False)  # macOS, Windows
    assert system.tree_memory(family) == pytest.approx(rss, rel=0.02)
    assert whole < rss or not os.path.exists("/proc/self/smaps_rollup")


# ---------------------------------------------------------------------------------------------------------
# files


@pytest.mark.parametrize("error", [errno.ENOTSUP, errno.EIO])
def test_a_disk_that_knows_no_full_sync_gets_the_plain_one(tmp_path, monkeypatch, error):
    """A network disk or a USB stick on macOS; any other error is told."""
    asked: list[str] = []

    def full_sync(handle: int, command: int) -> None:
        asked.append(f"full {command}")
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(system, "_fcntl", types.SimpleNamespace(F_FULLFSYNC=51, fcntl=full_sync))
    monkeypatch.setattr(os, "fsync", lambda handle: asked.append("fsync"))
    with pytest.raises(OSError, match="Input/output") if error == errno.EIO else contextlib.nullcontext():
        system.sync_folder(tmp_path)
    assert asked == ["full 51", "fsync"][: 1 if error == errno.EIO else 2]


def test_a_file_that_another_has_open_is_replaced_when_it_is_closed(tmp_path, monkeypatch):
    """Windows: `watch` reads status.json just while it is replaced."""
    tries: list[int] = []
    replace = os.replace

    def held(source: Path, target: Path) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise PermissionError(errno.EACCES, "being used by another process")
        replace(source, target)

    monkeypatch.setattr(os, "replace", held)
    for name in ("new", "old"):
        (tmp_path / name).write_text(name)
    with pytest.raises(PermissionError):  # elsewhere it says that it is not allowed, and waiting would not help
        system.rename(tmp_path / "new", tmp_path / "old")
    assert len(tries) == 1
    monkeypatch.setattr(system, "_OPEN_FILES_ARE_HELD", True)
    system.rename(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"
    assert len(tries) == 3


# ---------------------------------------------------------------------------------------------------------
# names

COMPOSED, APART = (unicodedata.normalize(form, "caf\u00e9") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(("on_disk", "given"), [("Corpus", "corpus"), (APART, COMPOSED), (COMPOSED, APART)])
def test_a_file_named_in_two_ways_is_one_source(tmp_path, monkeypatch, on_disk, given):
    """macOS, Windows: the same file by two names that the file system takes for one is counted once."""
    (tmp_path / f"{on_disk}.txt").write_text("hello")
    os.link(tmp_path / f"{on_disk}.txt", tmp_path / f"{given}.txt")  # both open it,
    listed = [name for name in os.listdir(tmp_path) if name != f"{given}.txt"]
    monkeypatch.setattr(os, "listdir", lambda folder: listed)  # one is listed
    found, warnings = find_sources([str(tmp_path / f"{given}.txt"), str(tmp_path / f"{on_disk}.txt")])
    assert [source.path for source in found] == [str(tmp_path / f"{on_disk}.txt")]
    assert "counted once" in warnings[0]


def test_files_whose_names_differ_by_case_only_are_two_where_they_are(tmp_path):
    for name in ("a.txt", "A.txt"):
        (tmp_path / name).write_text(name)
    if len(list(tmp_path.iterdir())) == 1:
        pytest.skip("this file system takes them for one")
    found, _ = find_sources([str(tmp_path), str(tmp_path / "a.txt")])
    assert [Path(source.path).name for source in found] == ["A.txt", "a.txt"]


def test_sources_come_in_one_order_whatever_the_file_system_does_to_their_names(tmp_path):
    """The ids of `encode` follow it. e with an accent sorts behind z as one character, before f as two."""
    orders = []
    for form in ("NFC", "NFD"):
        folder = tmp_path / form
        folder.mkdir()
        for name in ("z", "e\u0301", "f"):
            (folder / f"{unicodedata.normalize(form, name)}.txt").write_text("x")
        found, _ = find_sources([str(folder)])
        orders.append([unicodedata.normalize("NFC", Path(source.path).stem) for source in found])
    assert orders == [["f", "z", "\u00e9"]] * 2


@pytest.mark.parametrize(("glob", "folder"), [(COMPOSED, APART), (APART, COMPOSED)])
def test_groups_by_names_with_accents(glob, folder):
    """A corpus that was unpacked on a Mac, a glob that was typed on another keyboard."""
    assert GroupRules.from_options([f"{glob}={glob}/*"]).group_of(f"/corpus/{folder}/a.txt") == COMPOSED
    assert GroupRules.from_options((), "folder").group_of(f"/corpus/{folder}/a.txt") == COMPOSED


def test_windows_paths_are_grouped_with_slashes(monkeypatch):
    monkeypatch.setattr(os, "sep", "\\")
    assert GroupRules.from_options(["de=de/*"]).group_of(r"C:\corpus\de\a.txt") == "de"


@pytest.mark.parametrize("name", ["Main", "MAIN", "model", "caf\u00e9", "aux"])
def test_no_training_has_a_name_that_some_file_system_takes_for_another(name, monkeypatch):
    """Nor, on Windows, that of a device."""
    if name == "aux":
        check_name(name)
        monkeypatch.setattr(system, "_DEVICES_HAVE_NAMES", True)
    with pytest.raises(UsageError, match=f"--name {name}"):
        check_name(name)


# ---------------------------------------------------------------------------------------------------------
# signals, streams


@pytest.mark.long
def test_output_into_a_pipe_is_utf_8_whatever_the_locale(tmp_path):
    """Windows writes cp1252 into pipes and files, and fails on what that lacks."""
    (tmp_path / "a.txt").write_text("snow \u2603 falls\n" * 9, encoding="utf-8")
    env = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "streambpe"]
    subprocess.run([*command, "count", tmp_path / "run", tmp_path / "a.txt"], env=env, check=True)
    query = "SELECT chunk FROM chunk_counts WHERE chunk LIKE '%' || chr(9731) || '%'"
    done = subprocess.run([*command, "sql", tmp_path / "run", query, "--csv"], env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == "chunk\n \u2603\n".encode()


# ---------------------------------------------------------------------------------------------------------
# the one module

ONLY_THERE = {
    "os": {
        "sched_getaffinity", "cpu_count", "process_cpu_count", "fsync", "fdatasync", "sync", "replace", "rename",
        "kill", "fork", "pread", "pwrite", "posix_fadvise", "statvfs", "uname", "getuid", "mkfifo", "link",
    },
    "signal": {"SIGKILL", "SIGHUP", "SIGTERM", "SIGPIPE", "SIGUSR1", "SIGALRM", "alarm", "pause"},
    "psutil": {"virtual_memory", "Process", "cpu_count"},
    "mmap": {"MADV_DONTNEED"},
}  # fmt: skip
NOT_IMPORTED = {"fcntl", "msvcrt", "ctypes", "resource", "pwd", "grp", "termios", "multiprocessing", "winreg"}


def _foreign(tree: ast.AST) -> list[str]:
    """Places in a module that some systems do not have, or that mean something else there."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{node.lineno} {name}" for name in names if name in NOT_IMPORTED]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if node.attr in ONLY_THERE.get(node.value.id, ()) or node.attr in ("st_blocks", "madvise"):
                found.append(f"{node.lineno} {name}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(("/proc", "/sys/")):
            found.append(f"{node.lineno} {node.value}")
    return found


def test_what_differs_by_system_is_in_the_one_module():
    for path in sorted(PACKAGE.rglob("*.py")):
        found = _foreign(ast.parse(path.read_text(encoding="utf-8")))
        if path.parent.name == "core":  # the compiled loops are loaded with ctypes, everywhere alike
            found = [what for what in found if not what.endswith(" ctypes")]
        if path.name == "failpoints.py":  # stands below system.py, which dies at its failpoints too
            found = [what for what in found if not what.endswith(" os.kill")]
        assert bool(found) == (path.name == "system.py"), f"{path}: ask streambpe/system.py for {found}"


def test_text_files_are_read_and_written_as_utf_8_everywhere():
    """Without an encoding, Windows takes another."""
    ruff = [sys.executable, "-m", "ruff", "check", "--preview", "--select", "PLW1514", "--isolated", str(PACKAGE)]
    done = subprocess.run([*ruff, "--target-version", "py311"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(os.name == "nt", reason="only a process that was forked has its parent's files")
def test_a_lock_is_freed_though_a_forked_process_has_the_file(tmp_path):
    """A program that forks while it counts, as datatrove does, has no process that holds RUN for ever."""
    with (tmp_path / "lock").open("w") as holder, (tmp_path / "lock").open("w") as other:
        forked = os.dup(holder.fileno())  # what fork leaves to the child
        assert system.lock_handle(holder.fileno())
        assert not system.lock_handle(other.fileno())
        system.unlock_handle(holder.fileno())
        assert system.lock_handle(other.fileno())
        os.close(forked)
