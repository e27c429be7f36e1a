"""Fills a table of pgvector with the binary copy of psycopg, and prints the seconds and the processor's seconds.

`psycopg_copy.py URL TABLE`: 0 is the table that Reverie makes, 1 the same with PostgreSQL's default storage, and 2 that
without a column of fields.
"""

import sys
import time

import numpy
import pgvector.psycopg
import psycopg
from psycopg.types.json import Jsonb

ROWS, DIMENSIONS = 100_000, 384
connection = psycopg.connect(sys.argv[1], autocommit=True)
pgvector.psycopg.register_vector(connection)
vectors = numpy.random.default_rng(1).standard_normal((ROWS, DIMENSIONS)).astype("f4")
vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
rows = [(i, vectors[i], "text of a chunk " * 20, Jsonb({"path": f"guides/{i // 10}.md", "page": i % 10})) for i in range(ROWS)]
types = ["int8", "vector", "text", "jsonb"]
columns = f"id bigint primary key, vector vector({DIMENSIONS}) not null, text text not null"
definition, width = [
    (f"({columns}, fields jsonb not null) with (toast_tuple_target = 8160)", 4),
    (f"({columns}, fields jsonb not null)", 4),
    (f"({columns})", 3),
][int(sys.argv[2])]
connection.execute(f"drop table if exists copied; create table copied {definition}")
started, processor = time.perf_counter(), time.process_time()
with connection.cursor() as cursor, cursor.copy("copy copied from stdin (format binary)") as copy:
    copy.set_types(types[:width])
    for row in rows:
        copy.write_row(row[:width])
print(round(time.perf_counter() - started, 3), round(time.process_time() - processor, 3))
connection.execute("drop table copied")
