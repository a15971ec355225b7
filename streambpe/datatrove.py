"""A step of a datatrove pipeline: the documents that pass are counted, into a RUN for each rank.

    LocalPipelineExecutor([reader, filters, CountDocuments("runs/parts"), writer], tasks=16).run()
    $ streambpe merge-counts runs/all runs/parts/part-*

The step hands the documents on as they came. They go to a thread, which counts them as `count_from_iterator` does:

    documents  ->  batches  ->  a queue  ->  count_from_iterator in a thread  ->  runs/parts/part-00003-of-00016
               ->  the next step

A rank that datatrove starts again goes on: what was counted of its documents is compared, not counted again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Unpack
from weakref import WeakValueDictionary

try:
    from datatrove.pipeline.base import PipelineStep
    from datatrove.utils.logging import logger
except ImportError as why:
    raise ImportError(
        "streambpe.datatrove is a step for pipelines of datatrove. `pip install datatrove` installs it."
    ) from why

from streambpe.count_config import CountConfig, Counting, CountOptions
from streambpe.errors import SourceError, UsageError
from streambpe.text.patterns import find_pattern
from streambpe.train.counting.count import count_from_iterator
from streambpe.train.counting.job import CountResult

_BATCH_CHARS, _BATCH_DOCUMENTS = 1 << 18, 1000  # handed to the thread at once
_BATCHES = 4  # that wait for it
_RESOURCES = ("memory", "threads", "temp_dir", "max_disk", "document_seconds")


_open: WeakValueDictionary[Path, _Counting] = WeakValueDictionary()  # by RUN


class StepKeywords(CountOptions, total=False):
    """The options of the step: how text becomes chunks, and what each rank may use."""

    memory: str | int
    threads: int
    temp_dir: str | Path
    max_disk: str | int
    document_seconds: int


class CountDocuments(PipelineStep):
    """Counts the documents that pass, and hands them on."""

    name = "streambpe: count"
    type = "🔢 - TOKENIZER"

    def __init__(self, folder: str | Path, **options: Unpack[StepKeywords]) -> None:
        """`folder`: where each rank makes its RUN. `options`: as of `count`; each rank may use 1 GB and one thread
        unless `memory` and `threads` say otherwise, beside what the other steps take."""
        super().__init__()
        splitting: dict[str, Any] = {name: value for name, value in options.items() if name not in _RESOURCES}
        known = CountConfig.__dataclass_fields__
        unknown = [name for name in splitting if name not in known]
        if unknown:
            raise UsageError(
                f"CountDocuments has no option {unknown[0]!r}. It has {', '.join((*known, *_RESOURCES))}: its "
                f"documents are those of the pipeline."
            )
        # a wrong value is refused now, not in each rank
        config = CountConfig(**Counting.of({"options": splitting}).options)
        find_pattern(config.pattern, gaps=config.gaps, split_scripts=config.split_scripts)
        self.folder = str(Path(folder).absolute())
        self.options: dict[str, Any] = {"memory": "1GB", "threads": 1, **options}

    def run(self, data: Iterable[Any] | None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Count the documents of one rank."""
        name = f"part-{rank:05d}-of-{world_size:05d}"
        counting = _Counting(Path(self.folder) / name, name, self.options)
        try:
            for document in data or ():
                counting.put(document.text)
                yield document
        except BaseException:  # also of the steps before this one and behind it
            counting.stop()
            raise
        result = counting.end()
        self.stat_update("documents", value=counting.documents, unit="rank")
        if result is None:
            logger.warning(f"{name} has no text; {self.folder}/{name} is made, and its counts are empty.")
            return
        self.stat_update("chunks", value=result.corpus["chunks"], unit="rank")
        for warning in result.warnings:
            logger.warning(warning)


class _Counting:
    """A count in a thread, which is given its documents one after another.

    Where a step behind this one fails, nobody ends the count as long as something holds that step's error: the process
    ends, or the rank is begun again.
    """

    def __init__(self, run: Path, name: str, options: dict[str, Any]) -> None:
        self.documents = 0
        self._characters = 0
        self._batch: list[str] = []
        self._batch_characters = 0
        self._batches: queue.Queue[list[str] | None] = queue.Queue(_BATCHES)
        self._stop = threading.Event()
        self._result: CountResult | None = None
        self._error: BaseException | None = None
        if (left := _open.pop(run, None)) is not None:  # of a pipeline that failed in this process
            left.stop()
        _open[run] = self
        self._thread = threading.Thread(target=self._count, args=(run, name, options), daemon=True)
        self._thread.start()

    def _count(self, run: Path, name: str, options: dict[str, Any]) -> None:
        try:
            run.parent.mkdir(parents=True, exist_ok=True)
            self._result = count_from_iterator(run, self._texts(), name=name, stop=self._stop, **options)
        except BaseException as why:  # raised where the documents come from
            self._error = why

    def _texts(self) -> Iterator[str]:
        while (batch := self._batches.get()) is not None:
            yield from batch
        if self._stop.is_set():
            raise KeyboardInterrupt  # the documents did not end: what came is committed, and the stream stays open

    def put(self, text: str) -> None:
        """Count a document; raises what ended the count."""
        self._batch.append(text)
        self.documents += 1
        self._batch_characters += len(text)
        if self._batch_characters >= _BATCH_CHARS or len(self._batch) >= _BATCH_DOCUMENTS:
            self._hand_over()

    def _hand_over(self) -> None:
        self._characters += self._batch_characters
        batch, self._batch, self._batch_characters = self._batch, [], 0
        self._send(batch)
        if self._error is not None:
            raise self._error

    def _send(self, batch: list[str] | None) -> None:
        """Give the thread a batch, unless it has ended."""
        while self._thread.is_alive():
            try:
                return self._batches.put(batch, timeout=0.2)
            except queue.Full:
                continue
        return None

    def end(self) -> CountResult | None:
        """Count what is left; what the count tells, or None if there was no text."""
        self._hand_over()
        self._send(None)
        self._thread.join()
        if isinstance(self._error, SourceError) and not self._characters:
            return None
        if self._error is not None:
            raise self._error
        return self._result

    def stop(self) -> None:
        """End the count before the documents have ended: what came is committed."""
        self._stop.set()
        self._send(None)
        self._thread.join()
