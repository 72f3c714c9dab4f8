"""Airflow 3: one task per audience, after the tables that it reads are loaded."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

from rollcall_result import RollcallHeld, sync

AUDIENCES = ["big_spenders", "lapsed_customers"]


@dag(
    schedule="10 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Never two syncs of one audience at a time: Rollcall has its own lease, this keeps the queue short.
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=10), "retry_exponential_backoff": True},
)
def rollcall_audiences():
    @task
    def sync_audience(key: str) -> dict:
        try:
            result = sync(key)
        except RollcallHeld as held:
            # Trying again changes nothing: a person has to look at it.
            raise AirflowFailException(str(held)) from held
        return {"runs": [run["run"] for run in result.runs], "delivered": result.delivered}

    sync_audience.expand(key=AUDIENCES)


rollcall_audiences()
