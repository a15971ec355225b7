"""A use of each command that writes something, for tests that try them all."""

from __future__ import annotations

# RUN is a trained run, TEXT a text, TOKENIZER a tokenizer.json, OUT what is made, HERE a folder for temporary files.
MAKES_FILES = {  # which are kept if they are there already
    "encode-npy": "encode RUN TEXT -o OUT.npy --memory 300MB",
    "encode-bin": "encode RUN TEXT -o OUT.bin --memory 300MB",
    "encode-parquet": "encode RUN TEXT -o OUT.parquet --memory 300MB",
    "encode-validation": "encode RUN TEXT -o OUT.bin --validation 50% --lines --memory 300MB",
    "encode-shards": "encode RUN TEXT -o OUT.bin --shards 2 --lines --memory 300MB",
    "export-hf": "export RUN --to hf -o OUT.json",
    "export-folder": "export RUN --to hf -o OUT/",
    "export-tiktoken": "export RUN --to tiktoken -o OUT.tiktoken",
    "export-boundless": "export RUN --to boundless -o OUT.model",
    "export-events": "export RUN --to events -o OUT.jsonl",
    "export-sizes": "export RUN --to hf -o OUT.json --vocab-size 260,265 --no-compare",
    "export-counts-csv": "export-counts RUN -o OUT.csv",
    "export-counts-parquet": "export-counts RUN -o OUT.parquet",
    "import": "import TOKENIZER -o OUT.jsonl",
    "sql": "sql RUN run -o OUT.csv --memory 300MB",
    "prune": "prune RUN --to 262 -o OUT.jsonl --map OUT.json --memory 300MB",
}
MAKES_MORE = {
    "report": "report RUN -o OUT.html --memory 300MB",
    "sizes": "sizes RUN --text TEXT -o OUT.parquet --memory 300MB",
    "export-gguf": "export RUN --to gguf -o OUT.gguf",
    "count": "count OUT TEXT --memory 300MB",
    "train": "train OUT TEXT --vocab-size 262 --temp-dir HERE --memory 300MB",
    "merge-counts": "merge-counts OUT RUN --memory 300MB",
}
GOES_ON = {  # where OUT is a trained run
    "resume": "resume OUT",
    "grow": "train OUT --vocab-size 269 --memory 300MB",
    "converge": "converge OUT -s 260 --steps 2 --memory 300MB",
    "check": "check OUT --replay --temp-dir HERE --memory 300MB",
}
USES = MAKES_FILES | MAKES_MORE | GOES_ON


def words_of(use: str, **places: object) -> list[str]:
    """The words of a use, or of a command that is written like one, with these in place of RUN and the others."""
    words = USES.get(use, use).split()
    for name, place in places.items():
        words = [word.replace(name, str(place)) if word.startswith(name) else word for word in words]
    return words
