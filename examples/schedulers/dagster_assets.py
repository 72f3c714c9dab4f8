"""Dagster 1.8 or later: one asset per audience, with its size and changes as metadata."""

# Not `from __future__ import annotations`: Dagster reads the annotation of `context`.
from dagster import AssetExecutionContext, AssetsDefinition, Backoff, Definitions, Failure, MaterializeResult
from dagster import RetryPolicy, ScheduleDefinition, asset, define_asset_job

from rollcall_result import RollcallFailed, RollcallHeld, sync

AUDIENCES = ["big_spenders", "lapsed_customers"]


def audience(key: str) -> AssetsDefinition:
    @asset(name=key, group_name="rollcall", retry_policy=RetryPolicy(max_retries=3, delay=600, backoff=Backoff.EXPONENTIAL))
    def synced(context: AssetExecutionContext) -> MaterializeResult:
        try:
            result = sync(key)
        except RollcallHeld as held:
            # Trying again changes nothing: a person has to look at it.
            raise Failure(description=str(held), allow_retries=False) from held
        except RollcallFailed as failed:
            raise Failure(description=str(failed)) from failed
        if not result.delivered:
            context.log.warning("Not all of it is delivered yet: rollcall endpoints list")
        run = result.runs[-1]
        names = ("run", "members", "entered", "exited", "sent")
        return MaterializeResult(metadata={**{name: run[name] for name in names}, "delivered": result.delivered})

    return synced


assets = [audience(key) for key in AUDIENCES]
nightly = ScheduleDefinition(job=define_asset_job("rollcall_audiences", assets), cron_schedule="10 3 * * *")
defs = Definitions(assets=assets, schedules=[nightly])
