#!/usr/bin/env python3
"""Writes FOLDER/text.jsonl and FOLDER/text.parquet, the same records of text, for bench/controller/data_stream_bench.

  text_files.py FOLDER MEGABYTES        with pyarrow; megabytes of the JSON Lines file

Records of 200 to 4,000 characters of words that repeat as in natural text (Zipf). Parquet as datasets are published:
Snappy, row groups of 100,000 rows at most, here of 20,000.
"""
import itertools, json, os, random, sys
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_OF_A_GROUP = 20_000


def main(folder, megabytes):
    rng = random.Random(1)
    words = [''.join(rng.choices('abcdefghijklmnopqrstuvwxyz', k=rng.randint(2, 10))) for _ in range(50_000)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    schema = pa.schema([('id', pa.int64()), ('text', pa.string()), ('source', pa.string())])
    written = record = 0
    with open(os.path.join(folder, 'text.jsonl'), 'w') as lines, \
            pq.ParquetWriter(os.path.join(folder, 'text.parquet'), schema) as columns:
        while written < megabytes * 1_000_000:
            rows = []
            for _ in range(ROWS_OF_A_GROUP):
                text = ' '.join(rng.choices(words, cum_weights=weights, k=rng.randint(30, 570)))
                rows.append({'id': record, 'text': text, 'source': f'page {record % 977}'})
                record += 1
                written += lines.write(json.dumps(rows[-1]) + '\n')
            columns.write_table(pa.Table.from_pylist(rows, schema))


if __name__ == '__main__':
    main(sys.argv[1], float(sys.argv[2]))
