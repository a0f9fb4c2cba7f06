"""Drains workers of Dask: each begins no more tasks, finishes the tasks that it has begun, and hands over its results.
Prints the addresses of the workers that have left the scheduler.

The scheduler's own `retire_workers` moves finished results, but abandons running tasks, which then run again elsewhere.
So a worker is first stopped from beginning tasks, and retired once it has finished the tasks that it had begun.
"""

import asyncio
import json
import sys
import time

from distributed.core import rpc
from distributed.protocol.pickle import dumps

ASK_AGAIN = 0.05
MOVE_WITHIN = 10

address, within, *workers = sys.argv[1:]
deadline = time.monotonic() + int(within)


def begin_nothing(dask_worker):
    """Stops a worker from beginning tasks. Returns the keys of the tasks that it has begun or finished."""
    from distributed.core import Status

    if dask_worker.status in (Status.running, Status.paused):
        # Its scheduler is notified, and assigns nothing more to it.
        dask_worker.status = Status.closing_gracefully
    tasks = dask_worker.state.tasks.items()
    return {key for key, task in tasks if task.state not in ("waiting", "ready", "constrained")}


async def finish_tasks(scheduler, address):
    async with rpc(address) as worker:
        begun = (await worker.run(function=dumps(begin_nothing)))["result"]
    # The scheduler counts a task until it knows its result.
    while not begun.isdisjoint((await scheduler.processing(workers=[address]))[address]):
        await asyncio.sleep(ASK_AGAIN)


async def drain(scheduler):
    finishing = {asyncio.ensure_future(finish_tasks(scheduler, worker)) for worker in workers}
    ended, late = await asyncio.wait(finishing, timeout=deadline - time.monotonic())
    for task in ended:
        if task.exception():
            print(repr(task.exception()), file=sys.stderr)
    for task in late:
        task.cancel()
    retiring = scheduler.retire_workers(workers=workers, close_workers=True, remove=True)
    return await asyncio.wait_for(retiring, max(MOVE_WITHIN, deadline - time.monotonic()))


async def main():
    async with rpc(address) as scheduler:
        print(json.dumps(list(await drain(scheduler))))


asyncio.run(main())
