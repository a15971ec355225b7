"""Count chunks with Dask. Then: streambpe count runs/en counts/*.parquet --counts --pattern EXPRESSION"""

import json

import dask.bag
import regex

split = regex.compile(r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+").findall
if __name__ == "__main__":
    texts = dask.bag.read_text("corpus/*.jsonl").map(json.loads).pluck("text")
    texts.map(split).flatten().frequencies().to_dataframe(columns=["chunk", "count"]).to_parquet("counts")
