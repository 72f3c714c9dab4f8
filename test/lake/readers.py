"""Runs the statements of docs/event-log.md in one engine, then queries, which are read from the standard input as JSON."""

import json
import sys

given = json.load(sys.stdin)
engine, statements, queries = given["engine"], given["statements"], given["queries"]

if engine == "spark":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "1", **given["settings"]}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    version = spark.version
    for statement in statements:
        exec(statement) if "spark." in statement else spark.sql(statement)
    rows = lambda sql: [list(row) for row in spark.sql(sql).collect()]
elif engine == "clickhouse":
    from chdb import session

    house = session.Session()
    query = lambda sql: str(house.query(sql, "JSONCompactEachRow"))
    version = json.loads(query("SELECT version()"))[0]
    for statement in statements:
        house.query(statement)
    rows = lambda sql: [json.loads(line) for line in query(sql).splitlines()]
else:
    import duckdb

    database = duckdb.connect()
    version = duckdb.__version__
    for statement in statements:
        database.execute(statement)
    rows = lambda sql: [list(row) for row in database.execute(sql).fetchall()]

print(json.dumps({"version": version, "answers": {name: rows(sql) for name, sql in queries.items()}}))
