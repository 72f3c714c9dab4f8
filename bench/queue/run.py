"""Runs the harness in the working directory with our adapter in its registry, and with pg-boss without a container.

Its Postgres is the one that `docker` in the PATH starts, at the port of QUEUE_PORT.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, os.getcwd())

from bench_harness import adapters
from bench_harness.orchestrator import main

HERE = Path(__file__).parent
NODE = [os.environ["QUEUE_NODE"], "--max-semi-space-size=16"]

adapters.PG_PORT = int(os.environ["QUEUE_PORT"])
adapters.PG_USER = "rollcall"


def native(folder: Path, program: Path) -> adapters.AdapterEntry:
    return adapters.AdapterEntry(
        bench_dir=folder,
        builder=lambda skip: None,
        launcher=lambda manifest, overrides: adapters.LaunchSpec(
            argv=[*NODE, str(program)], env=adapters._base_env(manifest, overrides)
        ),
    )


pgboss = Path("pgboss-bench").resolve()
adapters.ADAPTERS["rollcall"] = native(HERE, HERE / "adapter.ts")
adapters.ADAPTERS["pgboss"] = native(pgboss, pgboss / "main.js")

raise SystemExit(main())
