"""Snowflake's SQL API over fakesnow: a statement goes to fakesnow's own server as the Python connector sends it."""
import datetime
import decimal
import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fakesnow
import snowflake.connector
from snowflake.connector.constants import FIELD_ID_TO_NAME

PART = 3000
statements = {}
# Each connection has a database of its own, with threads, which fakesnow keeps: they are used again.
idle = []
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def text(value, kind):
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        at = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        micros = (at - EPOCH) // datetime.timedelta(microseconds=1)
        sign = "-" if micros < 0 else ""
        seconds = f"{sign}{abs(micros) // 1000000}.{abs(micros) % 1000000:06d}000"
        return f"{seconds} 1440" if kind == "TIMESTAMP_TZ" else seconds
    if isinstance(value, datetime.date):
        return str((value - EPOCH.date()).days)
    if isinstance(value, datetime.time):
        return str(value.hour * 3600 + value.minute * 60 + value.second)
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "inf", "-inf": "-inf"}.get(repr(value), repr(value))
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)


class Statement:
    def __init__(self, given, connect):
        self.answer, self.parts, self.cancelled = None, [], False
        threading.Thread(target=self.run, args=(given, connect), daemon=True).start()

    def run(self, given, connect):
        try:
            connection = idle.pop() if idle else connect(session_parameters={"TIMEZONE": "UTC"})
            with connection.cursor() as cursor:
                cursor.execute(given["statement"])
                kinds = [FIELD_ID_TO_NAME[column.type_code] for column in cursor.description]
                rows = [[text(value, kind) for value, kind in zip(row, kinds)] for row in cursor.fetchall()]
                self.parts = [rows[at : at + PART] for at in range(0, len(rows), PART)] or [[]]
                columns = [
                    {"name": column.name, "type": kind.lower(), "scale": column.scale}
                    for column, kind in zip(cursor.description, kinds)
                ]
            about = {
                "numRows": len(rows),
                "rowType": columns,
                "partitionInfo": [{"rowCount": len(part)} for part in self.parts],
            }
            idle.append(connection)
            self.answer = 200, {"resultSetMetaData": about, "data": self.parts[0], "code": "090001"}
        except Exception as error:
            said = {
                "code": f"{getattr(error, 'errno', None) or 0:06d}",
                "message": getattr(error, "raw_msg", None) or getattr(error, "msg", None) or repr(error),
                "sqlState": getattr(error, "sqlstate", None) or "",
            }
            is_said = isinstance(error, snowflake.connector.errors.Error)
            self.answer = (422 if is_said else 500), said


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.endswith("/cancel"):
            statements[self.path.split("/")[-2]].cancelled = True
            return self.say(200, {})
        handle = uuid.uuid4().hex
        statements[handle] = Statement(json.loads(body), self.server.connect)
        self.say(202, {"statementHandle": handle, "code": "333334", "message": "in progress"})

    def do_GET(self):
        path, _, query = self.path.partition("?")
        statement = statements[path.split("/")[-1]]
        if statement.cancelled:
            return self.say(422, {"code": "000604", "message": "SQL execution canceled", "sqlState": "57014"})
        if statement.answer is None:
            return self.say(202, {"code": "333334", "message": "in progress"})
        if query.startswith("partition="):
            return self.say(200, {"data": statement.parts[int(query.split("=")[1])]})
        self.say(*statement.answer)

    def log_message(self, *_):
        pass


with fakesnow.server(session_parameters={"FAKESNOW_DB_PATH": ":isolated:"}) as given:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.connect = lambda **more: snowflake.connector.connect(
        **{**given, "database": "shop", "schema": "web", "session_parameters": {**given["session_parameters"], **more.get("session_parameters", {})}}
    )
    print(json.dumps({"port": server.server_port, "fakesnow": fakesnow.__version__ if hasattr(fakesnow, "__version__") else ""}), flush=True)
    sys.stdout.flush()
    server.serve_forever()
