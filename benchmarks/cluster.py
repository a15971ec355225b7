"""A Ray cluster on this machine whose links are cut: are its vocabulary and its ids those of one process?

    sudo python benchmarks/cluster.py en_5.txt      # results/cluster.tsv; --only REGEX picks trials
    sudo python benchmarks/cluster.py en_5.txt --soon --name cluster-soon

A head, where the command runs, and three workers with a CPU each hang on a bridge. Each is a host with a network
namespace (`ip netns`), a name, process ids and a disk of its own. The text lies in object storage: moto, on the bridge.
A trial trains with superwords, or encodes, in much smaller tasks than usual, so that a few MB are many. RUN is in

    /mnt/shared    a folder that all hosts see even when their links are cut, like NFS on another network,
    /mnt/bucket    object storage that each host has mounted with s3fs: a host that is cut off loses it, too,
    /mnt/own       or the head's own disk, which `--engine ray` must refuse.

The disturbance comes when a worker is at a task of the stage. Ray gives up a host that is silent for a minute and a
half; with --soon, for half a minute. A slow host gets 2 Mbit/s. With Dask, each task counts a share of the text on its
host's own disk, and the RUNs travel to the head, which adds them up (docs/clusters.md).

It needs root, what PROGRAMS and PACKAGES name, and says if something is missing. Exit code 1: a result was not byte for
byte that of one process, or a trial did not end as it should.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from harness import HERE, Table, call, parser, scratch, there

import streambpe

PROGRAMS, PACKAGES = ("ip", "tc", "unshare", "nsenter", "pgrep", "s3fs"), ("ray", "moto", "distributed")
NET, HEAD, STORE = "10.77.0", "10.77.0.10", "http://10.77.0.1:5555"
OWN, SHARED, BUCKET = "/mnt/own", "/mnt/shared", "/mnt/bucket"
TEXT, FILES = "s3://corpus/text/", 12
OPTIONS = ("--vocab-size", "4000", "--pattern", "boundless", "--superwords", "boundless")
STAGES = {"counting": ("counting",), "superwords": ("neighbours", "runs"), "encoding": ("encoding",)}
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
RAY = f"ray start --block --object-store-memory 80000000 --temp-dir {OWN}/ray --node-ip-address"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": STORE,
    "AWSACCESSKEYID": "key", "AWSSECRETACCESSKEY": "secret",  # s3fs calls them so
    "RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "300", "RAY_agent_register_timeout_ms": "300000",
    "RAY_USAGE_STATS_ENABLED": "0", "PYTHONDONTWRITEBYTECODE": "",  # else each process compiles all of Ray anew
    "HOME": OWN, "TMPDIR": OWN, "PYTHONPATH": str(HERE), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}  # fmt: skip
SOON = {"RAY_health_check_period_ms": "2000", "RAY_health_check_timeout_ms": "3000",
        "RAY_grpc_client_keepalive_time_ms": "10000", "RAY_grpc_client_keepalive_timeout_ms": "10000"}  # fmt: skip


def run(command: str) -> None:
    """One that must end well."""
    subprocess.run(command.split(), check=True)


class Host:
    """A host on the bridge. All that runs in it ends with its first process, a `sleep`."""

    def __init__(self, number: int, work: Path) -> None:
        self.number, self.name, self.address = number, f"sb-{number}", f"{NET}.{10 + number}"
        self.log = work / f"{self.name}.log"
        run(f"ip netns add {self.name}")
        run(f"ip link add {self.name} type veth peer name eth0 netns {self.name}")
        run(f"ip link set {self.name} master sb-bridge up")
        run(f"ip -n {self.name} address add {self.address}/24 dev eth0")
        run(f"ip -n {self.name} link set lo up")
        run(f"ip -n {self.name} link set eth0 up")
        mounts = f"""
            hostname {self.name}
            mount -t tmpfs mnt /mnt
            mkdir {OWN} {SHARED} {BUCKET}
            mount --bind {tempfile.mkdtemp(dir=work)} {OWN}
            mount --bind {work}/shared {SHARED}
            s3fs runs {BUCKET} -o url={STORE},use_path_request_style,max_stat_cache_size=0
            echo {self.address} {self.name} > {OWN}/hosts
            mount --bind {OWN}/hosts /etc/hosts
            mount --bind /dev/null /etc/resolv.conf
            echo ready
            exec sleep infinity"""
        command = ["ip", "netns", "exec", self.name, *APART, "--uts", "sh", "-ec", mounts]
        self.first = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.first.stdout is not None
        assert self.first.stdout.readline() == b"ready\n", "its folders cannot be mounted; see above"
        self.pid = psutil.Process(self.first.pid).children()[0].pid

    def start(self, command: Sequence[str], until: str = "") -> subprocess.Popen[bytes]:
        """Run something, and wait until it has said this; what it says is in the log."""
        enter = ("nsenter", "-t", str(self.pid), "--mount", "--pid", "--uts", "--net")
        self.log.unlink(missing_ok=True)  # an earlier command may go on writing
        with self.log.open("wb") as log:
            process = subprocess.Popen([*enter, *command], stdout=log, stderr=log)
        while until not in self.log.read_text():
            if process.poll() is not None:
                sys.exit(f"{self.name}: {self.log.read_text()[-1000:]}")
            time.sleep(0.2)
        return process

    def join_ray(self) -> None:
        """Be its head, which does no tasks, or one of its workers."""
        role = f"--address {HEAD}:6379 --num-cpus 1" if self.number else "--head --port 6379 --num-cpus 0"
        self.ray = self.start(f"{RAY} {self.address} {role}".split(), "Ray runtime started")

    def is_at_work(self) -> bool:
        """Whether a worker of Ray is at a task."""
        tasks = f"pgrep --ns {self.pid} --nslist pid -f ^ray::run_task"
        return subprocess.run(tasks.split(), stdout=subprocess.DEVNULL).returncode == 0

    def close(self) -> None:
        """End it."""
        self.first.kill()
        self.first.wait()
        run(f"ip link delete {self.name}")
        run(f"ip netns delete {self.name}")


def make_hosts(work: Path, text: bytes) -> list[Host]:
    """A bridge, the text as several files in object storage on it, and four hosts."""
    import boto3
    from moto.server import ThreadedMotoServer

    run("mount -t tmpfs run /run")  # where `ip netns` notes names
    run("ip link set lo up")
    run("ip link add sb-bridge up type bridge")
    run(f"ip address add {NET}.1/24 dev sb-bridge")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    ThreadedMotoServer(f"{NET}.1", 5555, verbose=False).start()
    store = boto3.client("s3", region_name="us-east-1")
    store.create_bucket(Bucket="runs")
    store.create_bucket(Bucket="corpus")
    lines = text.splitlines(keepends=True)
    for number in range(FILES):
        store.put_object(Bucket="corpus", Key=f"text/{number:02}.txt", Body=b"".join(lines[number::FILES]))
    return [Host(number, work) for number in range(4)]


# ---------------------------------------------------------------- what runs on the hosts


def with_small_tasks(arguments: list[str]) -> None:
    """The command line."""
    from streambpe.__main__ import main
    from streambpe.encode import spread as encoding
    from streambpe.train.counting import spread as counting
    from streambpe.train.superwords import tasks

    counting._LEAST_TASK = encoding._LEAST_TASK = 500_000  # bytes
    tasks.LEAST_TASK = 100_000  # chunks
    sys.argv[1:] = arguments
    main()


def count_share(share: str) -> bytes:
    """A task of Dask: a RUN made on this host's own disk, packed."""
    with tempfile.TemporaryDirectory() as folder:
        streambpe.count(f"{folder}/run", [TEXT], shard=share, sequences=True, pattern="boundless", memory="400MB")
        return Path(shutil.make_archive(f"{folder}/packed", "tar", f"{folder}/run")).read_bytes()


def by_dask(out: str) -> None:
    """Have shares counted, add them up, and train here."""
    from distributed import Client

    with Client(f"tcp://{HEAD}:8786") as client, tempfile.TemporaryDirectory() as folder:
        shares = [f"{number + 1}/{FILES}" for number in range(FILES)]
        parts = [Path(folder, str(number)) for number in range(FILES)]
        for part, packed in zip(parts, client.get_executor(pure=False).map(count_share, shares), strict=True):
            print('"stage": "counting"', flush=True)
            part.with_suffix(".tar").write_bytes(packed)
            shutil.unpack_archive(part.with_suffix(".tar"), part, filter="data")
        streambpe.merge_counts(out, parts)
    with_small_tasks(["train", out, *OPTIONS])


# ---------------------------------------------------------------- trials

# Disturbances, as shell commands; {command} is the process that trains or encodes.
CUT = "ip link set {host} down"
CUT_FOR = CUT + "; sleep %d; ip link set {host} up"
TRIALS = [
    *(("one process", job, OWN, "") for job in ("training", "encoding")),
    *(("undisturbed", job, SHARED, "") for job in ("training", "encoding")),
    *(("10 s without link", stage, SHARED, CUT_FOR % 10) for stage in STAGES),
    *(("link cut for good", stage, SHARED, CUT) for stage in STAGES),
    ("60 s without link", "counting", SHARED, CUT_FOR % 60),
    *(("command killed", stage, SHARED, "kill -KILL {command}") for stage in STAGES),
    ("slow host", "counting", SHARED, "tc qdisc add dev {host} root tbf rate 2mbit burst 32kb latency 1s"),
    ("object storage", "training", BUCKET, ""),
    ("object storage, link cut for good", "counting", BUCKET, CUT),
    ("object storage, 60 s without link", "counting", BUCKET, CUT_FOR % 60),
    ("own disks", "training", OWN, ""),
    ("Dask, own disks, link cut for good", "counting", OWN, CUT),
]


def tried(hosts: list[Host], job: Sequence[str], stage: str, disturbance: str) -> tuple[Host | None, str]:
    """Give a command on the head, and again if it is killed; who was disturbed, and the message if it fails."""
    lost: Host | None = None
    code = -signal.SIGKILL
    while code == -signal.SIGKILL:
        command = hosts[0].start(job)
        while command.poll() is None:
            time.sleep(0.02)
            _, _, now = hosts[0].log.read_text().rpartition('"stage": "')
            if disturbance and not lost and now.startswith(STAGES[stage]):
                lost = next((host for host in hosts[1:] if "by_dask" in str(job) or host.is_at_work()), None)
                if lost:
                    inside = psutil.Process(command.pid).children()[0].pid
                    subprocess.Popen(["sh", "-c", disturbance.format(host=lost.name, command=inside)])
        code = command.returncode
    if code:
        return lost, hosts[0].log.read_text().splitlines()[-1]
    return lost, "" if lost or not disturbance else "no worker was seen at this stage"


def restore(hosts: list[Host], host: Host, work: Path) -> None:
    """Make a host as it was, or a new one if Ray has given it up."""
    run(f"ip link set {host.name} up")
    subprocess.run(["tc", "qdisc", "delete", "dev", host.name, "root"], stderr=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        host.ray.wait(20)
        host.close()
        hosts[host.number] = Host(host.number, work)
        hosts[host.number].join_ray()


def try_all(only: str, hosts: list[Host], work: Path, table: Table) -> Iterator[str]:
    """A row for each trial; what is wrong with it."""
    for host in hosts:
        host.join_ray()
    expected: dict[bool, bytes] = {}  # by whether it encodes
    for number, (name, stage, place, disturbance) in enumerate(TRIALS):
        if not re.search(f"one process|undisturbed|{only}", f"{name} {stage}"):
            continue
        out, encodes = f"{place}/{number}", stage == "encoding"
        job = ["encode", f"{OWN}/0", TEXT, "-o", f"{out}.npy"] if encodes else ["train", out, TEXT, *OPTIONS]
        engine = ["--engine", "ray", "--address", f"{HEAD}:6379"] if name != "one process" else []
        job += ["--progress", "jsonl", "--memory", "700MB", *engine]
        command = call("cluster:with_small_tasks", arguments=job)
        if name.startswith("Dask"):
            command = call("cluster:by_dask", out=out)
            hosts[0].start(["dask", "scheduler", "--host", HEAD], "Scheduler at")
            for host in hosts[1:]:
                host.start(f"dask worker {HEAD}:8786 --nthreads 1 --host {host.address}".split(), "Registered to")
        began = time.monotonic()
        lost, said = tried(hosts, command, stage, disturbance)
        seconds = time.monotonic() - began
        made = Path(f"/proc/{hosts[0].pid}/root{out}{'.npy' if encodes else '/model.events.jsonl'}")
        found = made.read_bytes() if made.exists() else b""
        equal = found == expected.setdefault(encodes, found)
        table.add(name, stage, f"{seconds:.1f}", "yes" if equal else "no", said.replace(out, "RUN"))
        if (equal and not said) == (name == "own disks"):
            yield f"{name}, {stage}: {said or 'not as it should be'}"
        if lost:
            restore(hosts, lost, work)


def main() -> None:
    """Try everything, or say what is missing."""
    options = parser(__doc__, "work", "name", name="cluster")
    options.add_argument("text", type=Path)
    options.add_argument("--only", default="", metavar="REGEX", help="trials")
    options.add_argument("--soon", action="store_true", help="Ray gives lost hosts up sooner (SOON)")
    given = options.parse_args()
    missing = [name for name in PROGRAMS if not shutil.which(name)] + [name for name in PACKAGES if not there(name)]
    if missing or os.geteuid():
        print("Left out:", f"{missing[0]} is not here." if missing else "only root may make hosts.")
        return
    about = {"job": f"{given.text.stem} {' '.join(OPTIONS)}; encode"}
    if os.getpid() != 1:  # all networks, mounts and processes are this program's own, and end with it
        os.execvp("unshare", [*APART, "--net", sys.executable, *sys.argv])
    work = Path(tempfile.mkdtemp(dir=scratch(given.work)))
    (work / "shared").mkdir()
    os.environ.update({**ENVIRONMENT, **(SOON if given.soon else {})})
    with Table(given.name, about, ("trial", "stage", "seconds", "equal", "said")) as table:
        wrong = [*try_all(given.only, make_hosts(work, given.text.read_bytes()), work, table)]
    shutil.rmtree(work, ignore_errors=True)
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
