"""Count documents in the last step of a datatrove pipeline, without writing them to files.

Then: streambpe merge-counts runs/all runs/part-*-of-00002
"""

from itertools import chain

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader

from streambpe import count_from_iterator


class CountDocuments(PipelineStep):
    name = "count"

    def run(self, data, rank=0, world_size=1):
        part = f"part-{rank:05}-of-{world_size:05}"
        texts = (document.text for document in data)
        for first in texts:  # a rank without documents makes no RUN
            count_from_iterator(f"runs/{part}", chain([first], texts), source_name=part, memory="1GB", threads=1)
        return ()


if __name__ == "__main__":
    pipeline = [JsonlReader("corpus"), LambdaFilter(lambda document: len(document.text) > 20), CountDocuments()]
    LocalPipelineExecutor(pipeline, tasks=2, workers=2, logging_dir="logs").run()
