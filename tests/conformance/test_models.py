"""Model files that published systems wrote are read, and encode as their own libraries did.

The files and the vectors with their encodings are in tests/golden, or in the folder STREAMBPE_FOLDER names.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from tests.conformance.golden import folder_of, names_in, read_packed

FOLDER = folder_of("models")

# model file -> the vector that holds encodings by the same model
PAIRS = [
    ("minbpe_swift.model", "plain_minbpe_swift"),
    ("minbpe_swift.tiktoken", "plain_minbpe_swift"),
    ("batchbpe_swift_s0_f1.model", "batchbpe_swift_s0_f1"),
    ("hf_swift_tokenizer.json", "plain_hf_swift_alphabet"),
    ("word_v2_swift_t09.model", "picky_kensho_swift_t09_blowup"),
    ("boundless_v2_swift_t09.model", "boundless_twophase_swift_t09"),
    ("superbpe_v2_swift.model", "superbpe_kensho_swift"),
    ("boundless_v1_swift_t09.model", "boundless_original_swift_t09"),
]


def load(name: str, folder: Path) -> Tokenizer:
    """A model file as its system writes it."""
    path = folder / name
    path.write_bytes(read_packed(FOLDER / "models", name))
    return Tokenizer(import_file(path, pattern="gpt4" if name.endswith(".tiktoken") else None))


@pytest.mark.parametrize(("name", "vector"), PAIRS)
def test_published_model_encodes_as_its_own_library_did(name, vector, tmp_path):
    """Same tokens, same ids, on every text of the vector."""
    tokenizer = load(name, tmp_path)
    rows = json.loads(read_packed(FOLDER, f"{vector}.json"))["encodings"]
    assert len(rows) > 20
    for row in rows:
        ids = tokenizer.encode_ordinary(row["text"])
        if "tok" in row:
            assert [tokenizer.decode_single_token_bytes(i).hex() for i in ids] == row["tok"], row["text"]
        if name.startswith("boundless_v1"):
            # the original numbers deleted tokens too: its ids are our log ids
            ids = [tokenizer.encoder.model.log_id[i] for i in ids]
        assert ids == row["ids"], row["text"]


def test_every_model_file_is_read():
    """A file that nothing reads is never passed over."""
    assert set(names_in(FOLDER / "models")) == {name for name, _ in PAIRS}
