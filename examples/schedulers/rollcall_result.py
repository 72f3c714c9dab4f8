"""Runs one sync of one audience and reads what came of it; Airflow and Dagster share it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

CONFIG = os.environ.get("ROLLCALL_CONFIG") or "rollcall.yaml"
DONE, FAILED, USAGE, HELD, UNDELIVERED = range(5)


class RollcallFailed(Exception):
    """The sync failed: with --json every failure is an object with a code."""


class RollcallHeld(Exception):
    """A guard or an expectation holds the run: a person approves or rejects it."""


@dataclass(frozen=True)
class Result:
    """The lines that the command printed, and whether all of it is delivered."""

    runs: list[dict]
    delivered: bool


def sync(key: str, *, command: tuple[str, ...] = ("rollcall",), now: str | None = None) -> Result:
    """Syncs an audience or trait, waits for its deliveries, and raises where a person or a retry is needed."""
    as_of = ["--now", now] if now else []
    finished = subprocess.run(
        [*command, "sync", key, "--once", "--json", "-c", CONFIG, *as_of],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    runs = [line for line in lines if "error" not in line]
    if finished.returncode in (DONE, UNDELIVERED):
        return Result(runs=runs, delivered=finished.returncode == DONE)
    if finished.returncode == HELD:
        held = next(run for run in runs if run["state"] == "held")
        raise RollcallHeld(f"{key}: {held['reason']} Decide: rollcall approve {held['run']}, or reject")
    errors = [line["error"] for line in lines if "error" in line]
    # One that failed after it had begun to send is still "sending": the next try goes on with it.
    errors += [{"code": run["code"], "message": run["reason"]} for run in runs if run["code"]]
    error = errors[0] if errors else {"code": "internal_error", "message": finished.stderr}
    raise RollcallFailed(f"{error['code']}: {error['message']}")


if __name__ == "__main__":
    result = sync(sys.argv[1], command=tuple(sys.argv[2:]) or ("rollcall",))
    print(json.dumps({"sent": sum(run["sent"] for run in result.runs), "delivered": result.delivered}))
