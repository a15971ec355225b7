"""All benchmarks one after the other, and the page of their results: make bench-small (minutes), make bench (hours).

    python benchmarks/everything.py --small                           # text made from the bundled sample
    python benchmarks/everything.py --corpora DIR [--only REGEX]      # of en_100.txt, en_300.txt, multi_60.txt, or .zst
    python benchmarks/everything.py --corpora DIR --list              # the jobs, and about how long they take
    python benchmarks/everything.py --corpora DIR --try               # each on 2 MB: whether all of them run

The order is by importance: after an hour or so there is what the README quotes. Each job's results are copied to
results/ when it has ended well, and docs/benchmarks.md is made anew, so a run may be stopped at any time; a job that
fails or finds that contenders did not do the same job is told at the end (exit code 1), its results stay in --work.
Peers that are not installed are left out, and said to be: make bench installs them all. A job without any of its peers
is left out too. Texts that a job reads are made when it begins. Not among them: versions.py, which wants an older
version.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import encode
import extracts
import page
import synthetic
from corpora import open_corpus
from harness import HERE, scratch
from measured import RESULTS, everything

SAMPLE = HERE.parent / "tests/data/sample"
SAMPLE_MB = 40
TRY_MB = 2
TRAINERS = ("rustbpe", "tokenizers", "bpeasy", "ffbpe", "gigabpe", "sentencepiece")
ENCODERS = (
    "streambpe-corpus", "streambpe-batch", "streambpe-text", "tuetoken-batch", "tokie-batch", "tiktoken", "tokenizers",
)  # fmt: skip
LINES = "--documents lines --pattern gpt2"  # what gigabpe can do
SLOW = "--once tokenizers --once bpeasy --once sentencepiece"
LIKE_HF = "--documents ended --pattern gpt2 --like hf"
ONCE = "--runs 1 --no-warm-up"
INSTEAD = "instead:"
TABLE = "fineweb_edu_1gb_counts.csv"


class Job(NamedTuple):
    """A script of this folder with its arguments."""

    script: str
    arguments: str
    minutes: float  # about so many, on two cores; what a peer takes is most of it
    trial: str = ""  # more arguments of --try; an option that is given again holds. INSTEAD: no others than these
    into: str = ""  # a result that the script writes to stdout
    peers: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """As one types it."""
        return f"python benchmarks/{self.script} {self.arguments}" + (f" > {self.into}" if self.into else "")

    @property
    def missing(self) -> list[str]:
        """Peers of it that are not installed."""
        return [name for name in self.peers if not there(name)]

    @property
    def alone(self) -> bool:
        """No peer is left of those that it compares with."""
        return bool(self.peers) and len(self.missing) == len(self.peers)


class Texts:
    """The texts that jobs read, by name; each is made when the first job that reads it begins."""

    def __init__(self, folder: Path | None, work: Path, most: float | None) -> None:
        self.folder, self.work, self.most = folder, work, most
        self.makers: dict[str, Callable[[Path], object]] = {}

    def given(self, stem: str) -> Path:
        """en_100 and such, decompressed."""
        if self.folder is None:
            return self._made("sample.txt", self._sample)
        names = [self.folder / name for name in (f"{stem}.txt", f"{stem}.txt.zst")]
        found = next((path for path in names if path.exists()), None)
        if found is None:
            sys.exit(f"{self.folder}: neither {stem}.txt nor {stem}.txt.zst is there.")
        if found.suffix != ".zst" and not self.most:
            return found.resolve()
        return self._made(f"{stem}.txt", lambda path: _copy(found, path, self.most))

    def first(self, of: Path, name: str, mb: float) -> Path:
        """The first MB of another."""
        return self._made(f"{name}.txt", lambda path: _copy(self.ready(of), path, min(mb, self.most or mb)))

    def kind(self, kind: str, of: Path) -> Path:
        """One of extracts.py."""

        def make(path: Path) -> None:
            if self.most and kind == "code":
                extracts.write(kind, None, path.with_suffix(".all"))
                _copy(path.with_suffix(".all"), path, self.most)
            else:
                extracts.write(kind, self.ready(of), path)

        return self._made(f"{kind}.txt", make)

    def synthetic(self, of: Path, mb: int) -> Path:
        """Text of any size, in lines."""
        return self._made(f"synthetic_{mb}.txt", lambda path: _synthetic([self.ready(of)], path, self.most or mb))

    def ready(self, path: Path) -> Path:
        """Make it, unless it is there."""
        if path.exists():
            return path
        print(f"{path.name} is made ...", file=sys.stderr, flush=True)
        unfinished = path.with_suffix(".unfinished")
        self.makers[str(path)](unfinished)
        return unfinished.rename(path)

    def ready_for(self, job: Job) -> None:
        """All that it reads."""
        for word in shlex.split(job.arguments):
            path = word.partition(",")[0]
            if path in self.makers:
                self.ready(Path(path))

    def _made(self, name: str, make: Callable[[Path], object]) -> Path:
        path = self.work / name
        self.makers[str(path)] = make
        return path

    def _sample(self, path: Path) -> None:
        _synthetic(sorted(SAMPLE.glob("*.txt")), path, self.most or SAMPLE_MB)


def _copy(source: Path, target: Path, mb: float | None) -> None:
    """A text decompressed, or its first MB in whole lines."""
    left = int(mb * 1e6) if mb else None
    with open_corpus(source) as lines, target.open("wb") as out:
        while (left is None or left > 0) and (data := lines.read(min(1 << 20, left or 1 << 20)) + lines.readline()):
            left = None if left is None else left - out.write(data)
            if left is None:
                out.write(data)


def _synthetic(sources: list[Path], target: Path, mb: float) -> None:
    text = synthetic.Text.of(b"".join(part.read_bytes()[: synthetic.LEARNED_BYTES] for part in sources))
    done = 0
    with target.open("wb", buffering=1 << 20) as out:
        for document in synthetic.documents(text, 0):
            done += out.write(document.decode(errors="ignore").encode() + b"\n")
            if done >= mb * 1e6:
                break


def small(texts: Texts) -> Iterator[Job]:
    """Some minutes: 5 MB and 30 MB of one text."""
    english = texts.given("en_100")
    stem, trial = english.stem, f"--mb {TRY_MB} --vocab-size 2000 --runs 1"
    job = f"--corpus {english} --mb 5 {LINES} --vocab-size 8000 --runs 3 --name train-small-5"
    yield training(job, TRAINERS, 1, trial=trial)
    job = f"--corpus {english} --mb 30 {LINES} --vocab-size 32768 --runs 3 --name train-small-30"
    yield training(job, [name for name in TRAINERS if name != "sentencepiece"], 4, trial=trial)
    yield Job("count.py", f"--corpus {english} --mb 30 --runs 3", 2, f"--mb {TRY_MB} --runs 1")
    yield Job("superwords.py", f"--corpus {english} --mb 20 --vocab-size 32768 --runs 1", 1, trial)
    yield encoding(f"{english} --mb 5 --threads 1 2 --rounds 1", ENCODERS, 1, f"encode-small-{stem}.tsv")


def whole(texts: Texts) -> Iterator[Job]:
    """Hours: what the README quotes, what the other pages quote, then what is large."""
    english, large, languages = (texts.given(name) for name in ("en_100", "en_300", "multi_60"))
    yield from quoted(texts, english, large, languages)
    yield from beside(texts, english, large, languages)
    yield from kinds(texts, english, large, languages)
    yield from long(texts, english, large, languages)


def quoted(texts: Texts, english: Path, large: Path, languages: Path) -> Iterator[Job]:
    """What the README says."""
    quick = ("rustbpe", "ffbpe")
    five = texts.first(english, "en_5", 5)
    trial = "--vocab-size 2000 --runs 1 --no-warm-up"
    job = f"--corpus {five} {LINES} --vocab-size 8000 --name train-en_5-8000-gpt2"
    yield training(job, TRAINERS, 2, trial=trial)
    job = f"--corpus {english} --vocab-size 131072 --memory 400MB --runs 3"
    yield training(job, ("rustbpe", "tokenizers", "bpeasy", "ffbpe"), 5, trial=trial)
    for text, size, minutes in ((english, 131072, 5), (large, 131072, 9), (languages, 32768, 4)):
        job = f"--corpus {text} --vocab-size {size} {LINES} --runs 3 {SLOW} --name train-{text.stem}-{size}-gpt2"
        # sentencepiece wants an id for each character of a text
        few = "--vocab-size 12000 --runs 1 --no-warm-up"
        yield training(job, TRAINERS, minutes, trial=few)
    for corpus in (english, languages):
        yield Job("count.py", f"--corpus {corpus} --memory 500MB --runs 3", 3, "--runs 1 --no-warm-up")
    everyone = tuple(encode.PLAIN + encode.SHORT + encode.BOUNDLESS)
    yield encoding(f"{english} --mb 30 --threads 1 2 --rounds 2", everyone, 10, "encode.tsv")
    published = tuple(name for name in (*everyone, *encode.PUBLISHED) if name not in encode.LEARNED)
    job = f"{english} --mb 30 --threads 1 2 --rounds 2 --vocabulary cl100k_base"
    if there("rs_bpe"):  # which carries that vocabulary
        yield encoding(job, published, 10, "encode-cl100k_base.tsv")
    for kind in ("chinese", "code"):
        job = f"--corpus {texts.kind(kind, languages)} --vocab-size 32768 {LINES} --runs 3"
        yield training(f"{job} --name train-{kind}-32768-gpt2", TRAINERS, 3, trial=few)
    yield training(f"--corpus {large} --vocab-size 131072 --runs 3", quick, 2, trial=trial)
    yield training(f"--corpus {languages} --vocab-size 32768 --runs 3", quick, 2, trial=trial)
    memories = "--memory 1GB --memory 512MB"
    only = "--only 'streambpe-superwords 1GB' --only 'streambpe-superwords 512MB'"
    job = f"--corpus {large} --vocab-size 131072 --runs 1 {memories} {only}"
    yield Job("superwords.py", job, 2, trial)
    if texts.folder and (table := texts.folder / TABLE).exists():
        job = f"--table {table.resolve()} --vocab-size 50304 --only streambpe-learn --only streambpe --runs 3"
        yield Job("train.py", f"{job} --name train-fineweb-ours", 1, "--vocab-size 1000 --runs 1 --no-warm-up")
    yield Job("many_chunks.py", "--memory 2GB --memory 256MB", 6, "--words 20000 --vocab-size 1000")


def beside(texts: Texts, english: Path, large: Path, languages: Path) -> Iterator[Job]:
    """Beside the peers in other ways, and what other pages quote."""
    trial = "--vocab-size 2000"
    huge = texts.synthetic(english, 1000)
    job = f"--corpus {huge} {LINES} --vocab-size 131072 {ONCE} --name train-synthetic_1000-131072-gpt2"
    yield training(job, TRAINERS, 20, trial=trial)
    if texts.folder and (table := texts.folder / TABLE).exists():  # BatchBPE's rule
        job = f"--table {table.resolve()} --vocab-size 50304 --runs 3 --once batchbpe"
        yield Job("train.py", job, 8, "--vocab-size 1000 --runs 1 --no-warm-up")
    for corpus, size in ((large, 131072), (languages, 32768)):
        job = f"--corpus {corpus} --vocab-size {size} {LIKE_HF} {ONCE} --name equal-{corpus.stem}-hf"
        yield training(job, ("tokenizers", "gigabpe"), 4, trial=trial, learn=False)
        job = f"--corpus {corpus} --vocab-size {size} {ONCE} --name equal-{corpus.stem}-rustbpe"
        yield training(job, ("rustbpe",), 2, trial=trial, learn=False)
    few = "--old-size 2000 --more 300 --runs 1 --no-warm-up"
    yield Job("extend.py", f"--old {english} --new {languages} --runs 3", 8, few)
    yield Job("balance.py", str(languages), 1, f"--mb {TRY_MB} --vocab-size 1000")
    yield Job("superwords.py", f"--corpus {english} --vocab-size 131072 --runs 1", 3, trial)
    job = f"--corpus {large} --corpus {languages} --encode-mb 60 --runs 3"
    yield Job("scaling.py", job, 15, "--mb 2 --encode-mb 1 --runs 1 --no-warm-up")
    yield Job("task_costs.py", f"--corpus {english} --name task-costs", 2)
    yield Job("queried.py", f"--corpus {english} --vocab-size 32768 --runs 3", 2, "--vocab-size 2000 --runs 1")
    yield Job("neighbours.py", "--million 150 --files 12 --memory 128MB --name neighbours", 3, "--million 2 --files 2")
    jobs = f"{english},32768,500MB {languages},32768,1GB {texts.synthetic(english, 300)},131072,1GB"
    yield Job("plan.py", f"{jobs} --runs 3", 2, "--runs 1")
    yield Job("fixed_share.py", "", 0.2)
    yield Job("held.py", "", 0.5, "--many 1000")
    job = f"--corpus {english} --runs 2 --name picky-time --size 65536 --only plain --only 'tau 0.9' --only 'tau 0.6'"
    few = f"{INSTEAD} --corpus {english} --size 2000 --runs 1 --only plain --only 'tau 0.9'"
    yield Job("picky.py", job, 2, f"{few} --name picky-time")


def kinds(texts: Texts, english: Path, large: Path, languages: Path) -> Iterator[Job]:
    """Every kind of model, and the papers."""
    for corpus in (english, languages):
        job = f"--corpus {corpus} --kinds --memory 1GB {ONCE} --timeout 900"
        yield Job("superwords.py", job, 3, "--vocab-size 2000")
    for corpus, pattern in ((large, "gpt2"), (large, "gpt4o"), (languages, "gpt2")):
        for threads in (1, 2):
            name = f"count-{corpus.stem}-{pattern}-threads{threads}"
            job = f"--corpus {corpus} --documents lines --pattern {pattern} --threads {threads} --only streambpe"
            yield Job("count.py", f"{job} --runs 1 --no-same-job --name {name}", 0.3)
    few = f"{INSTEAD} --corpus {english} --size 2000 --runs 0 --only plain --only 'tau 0.9'"
    yield Job("picky.py", f"--corpus {english} --runs 0", 12, few)
    yield Job("script.py", f"--corpus {languages} --runs 0", 8)
    # 2 MB do not fill the other tables' vocabularies
    job = f"--english {english} --held {large} --languages {languages}"
    yield Job("papers.py", job, 20, "--only tutorial --only script")
    yield Job("giant.py", f"--corpus {english} --learn", 5, f"--mb {TRY_MB}")


def long(texts: Texts, english: Path, large: Path, languages: Path) -> Iterator[Job]:
    """What takes its time: growth, limits, kills."""
    trial = "--mb 1 2 --vocab-size 2000 --ids 1000"
    job = f"--corpus {large} --mb 100 300 1000 3000 10000 --until uw=3000 --ids 8192 32768"
    yield Job("scale.py", job, 50, trial)
    huge = texts.synthetic(english, 1000)
    only = "--only streambpe-superwords"
    yield Job("superwords.py", f"--corpus {huge} --memory 1GB {ONCE} {only}", 2, "--vocab-size 2000")
    yield Job("count.py", f"--corpus {huge} --memory 500MB {ONCE}", 8)
    yield Job("memory.py", f"--corpus {english} --corpus {languages} --large {large} --small {languages}", 5)
    every = [texts.first(of, f"{of.stem.partition('_')[0]}_30", 30) for of in (english, languages)]
    both = f"--every {every[0]} --every {every[1]}"
    yield Job("memory.py", f"--name limits {both}", 27, "--only plain")
    yield Job("memory.py", f"--name limits-look {both} --only 'check ' --only 'report '", 17)
    yield Job("memory.py", f"--name memory-processes --workers {english} --timeout 400", 15)
    yield Job("memory.py", f"--name memory-balance --balance {languages}", 3)
    yield Job("forecast.py", f"--corpus {english} --ray-seconds 4.3 3.3", 4, "--vocab-size 2000")
    few = "--mb 4 --minutes 0.2 --vocab-size 2000 --shortest 1 --longest 3"
    yield Job("soak.py", f"--text {english} --mb 3000 --minutes 75 --memory 1GB --shortest 60 --longest 400", 100, few)


def training(job: str, peers: tuple[str, ...] | list[str], minutes: float, trial: str, learn: bool = True) -> Job:
    """train.py with those of these trainers that are installed."""
    ours = ("streambpe", "streambpe-learn") if learn else ("streambpe",)
    only = " ".join(f"--only {name}" for name in (*ours, *filter(there, peers)))
    return Job("train.py", f"{job} {only}", minutes, trial, peers=tuple(peers))


def encoding(job: str, contenders: tuple[str, ...], minutes: float, into: str) -> Job:
    """encode.py with those that are installed."""
    peers = tuple(dict.fromkeys(name.partition("-")[0] for name in contenders if not _is_ours(name)))
    only = " ".join(name for name in contenders if _is_ours(name) or there(name.partition("-")[0]))
    return Job("encode.py", f"{job} --only {only}", minutes, "--mb 1 --rounds 1 --no-warm-up", into, peers)


def _is_ours(contender: str) -> bool:
    return contender.startswith(("streambpe", "boundless"))


def there(peer: str) -> bool:
    """Whether it is installed."""
    return importlib.util.find_spec(peer) is not None


class Runner:
    """Runs jobs; what they write is theirs until they have ended well."""

    def __init__(self, texts: Texts, work: Path, trial: bool) -> None:
        self.texts, self.work, self.trial = texts, work, trial
        self.results = work / "results"
        if self.results.exists():
            shutil.rmtree(self.results)
        shutil.copytree(RESULTS, self.results)  # some read what others wrote

    def run(self, jobs: list[Job]) -> list[str]:
        """All of them; what failed."""
        failed = []
        for number, job in enumerate(jobs, 1):
            left = sum(one.minutes for one in jobs[number - 1 :])
            about = "" if self.trial else f"  # about {job.minutes:g} minutes; {left:.0f} with all that follow"
            print(f"\n[{number}/{len(jobs)}] $ {job.line}{about}", file=sys.stderr, flush=True)
            began, before = time.monotonic(), self._state()
            code = self.one(job)
            ended = f"exit code {code}, " if code else ""
            print(f"{ended}{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            written = [Path(name) for name, state in self._state().items() if before.get(name) != state]
            if code:
                names = ", ".join(sorted(path.name for path in written)) or "nothing"
                failed.append(f"exit code {code}: {job.line}\n  written to {self.results}: {names}")
            elif not self.trial:
                for path in written:
                    shutil.copyfile(path, RESULTS / path.name)
                page.write()
        return failed

    def _state(self) -> dict[str, tuple[int, int]]:
        """When each result was written, and its size."""
        stats = {str(path): path.stat() for path in self.results.iterdir()}
        return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}

    def one(self, job: Job) -> int:
        """Its exit code."""
        self.texts.ready_for(job)
        arguments = shlex.split(job.arguments)
        if self.trial:
            more = shlex.split(job.trial)
            arguments = more[1:] if more[:1] == [INSTEAD] else [*arguments, *more]
        command = [sys.executable, str(HERE / job.script), *arguments]
        env = {**os.environ, "BENCH_RESULTS": str(self.results)}
        if not job.into:
            if "--work" in (HERE / job.script).read_text(encoding="utf-8"):
                command += ["--work", str(self.work)]
            return subprocess.run(command, stdout=subprocess.DEVNULL, env=env).returncode
        done = subprocess.run(command, stdout=subprocess.PIPE, env=env)
        (self.results / job.into).write_bytes(done.stdout)
        return done.returncode


def listed(jobs: list[Job]) -> str:
    """One line for each, with the minutes up to its end."""
    lines, sum_of = [], 0.0
    for job in jobs:
        sum_of += job.minutes
        missing = f"  # without {', '.join(job.missing)}: not installed" if job.missing else ""
        lines.append(f"{job.minutes:5.1f} min, {sum_of:5.0f} in all: {job.line}{missing}")
    return "\n".join([*lines, f"{len(jobs)} jobs, about {sum_of / 60:.1f} hours on two cores."])


def main() -> int:
    """Run, draw the page, say what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="minutes instead of hours")
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="with --small only en_100 is read, if it is given")
    parser.add_argument("--only", action="append", default=[], metavar="REGEX", help="benchmarks whose command has it")
    parser.add_argument("--list", action="store_true", help="only say what would be run, and about how long it takes")
    parser.add_argument("--try", action="store_true", dest="trial", help=f"{TRY_MB} MB of each text, no results kept")
    parser.add_argument("--work", help="folder for prepared corpora and RUNs, on the disk to be measured")
    given = parser.parse_args()
    if not given.small and not given.corpora:
        parser.error("--corpora DIR is wanted, or --small")
    try:
        wanted = [re.compile(expression) for expression in given.only]
    except re.error as why:
        parser.error(f"--only is a regular expression: {why}")
    work = scratch(given.work)
    if given.trial:
        work = scratch(str(work / "try"))
    texts = Texts(given.corpora, work, TRY_MB if given.trial else None)
    jobs = list(small(texts) if given.small else whole(texts))
    jobs = [job for job in jobs if not wanted or any(one.search(job.line) for one in wanted)]
    for job in jobs:
        if job.alone:
            print(f"Left out, as of {', '.join(job.missing)} none is installed: {job.line}", file=sys.stderr)
    chosen = [job for job in jobs if not job.alone]
    if not chosen:
        parser.error("no benchmark is left to run; --list without --only says which there are")
    if given.list:
        print(listed(chosen))
        return 0
    if missing := sorted({name for job in chosen for name in job.missing}):
        print(f"Not installed, left out: {', '.join(missing)}.", file=sys.stderr)
    runner = Runner(texts, work, given.trial)
    failed = runner.run(chosen)
    if given.trial:
        page.page(everything(runner.results))
        told = f"{len(chosen) - len(failed)} of {len(chosen)} jobs run; what they wrote is in {runner.results}."
    else:
        told = "docs/benchmarks.md has the results."
    print("\n".join([*failed, told]), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
