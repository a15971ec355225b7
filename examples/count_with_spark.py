"""Count chunks with Spark. Then: streambpe count runs/en counts/*.parquet --counts --pattern EXPRESSION"""

from operator import add

import regex
from pyspark.sql import SparkSession

expression = r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
texts = SparkSession.builder.getOrCreate().read.json("corpus").rdd
chunks = texts.flatMap(lambda row: regex.findall(expression, row.text)).map(lambda chunk: (chunk, 1))
chunks.reduceByKey(add).toDF(["chunk", "count"]).write.parquet("counts", compression="gzip")
