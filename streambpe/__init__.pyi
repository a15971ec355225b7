"""The public names; made by tools/keywords.py."""

from streambpe.encode.corpus import encode_corpus as encode_corpus
from streambpe.encode.formats.export import export as export
from streambpe.encode.formats.export import import_model as import_model
from streambpe.encode.tokenizer import Tokenizer as Tokenizer
from streambpe.errors import StreambpeError as StreambpeError
from streambpe.inspect.check import check as check
from streambpe.inspect.converge import converge as converge
from streambpe.inspect.difference import diff as diff
from streambpe.inspect.evaluate import evaluate as evaluate
from streambpe.inspect.explain import explain as explain
from streambpe.inspect.extended import extend_report as extend_report
from streambpe.inspect.page import report as report
from streambpe.inspect.plan import plan as plan
from streambpe.inspect.prune import prune as prune
from streambpe.inspect.query import sql as sql
from streambpe.inspect.status import status as status
from streambpe.store.exchange import export_counts as export_counts
from streambpe.store.exchange import merge_counts as merge_counts
from streambpe.train.commands import resume as resume
from streambpe.train.commands import train as train
from streambpe.train.commands import train_from_iterator as train_from_iterator
from streambpe.train.counting.count import count as count
from streambpe.train.counting.count import count_from_iterator as count_from_iterator
from streambpe.train.counting.take_back import take_back as take_back

__version__: str
