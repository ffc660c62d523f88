#!/usr/bin/env python3
"""Watches a job by asyncio and cancels it, with a checkpoint, once its loss is below a limit.

  stop_early.py JOB LIMIT
"""
import asyncio, sys

import coxswain_train as coxswain


async def main():
    name, limit = sys.argv[1], float(sys.argv[2])
    with coxswain.Client() as client:
        job, asked = client.get(name), False
        async for event in job.watch_async():
            if event.HasField('step_done') and event.step_done.loss < limit and not asked:
                asked = True
                print(f'step {event.step_done.step + 1}: loss {event.step_done.loss:.4f}', flush=True)
                client.cancel(job, checkpoint=True)
        print(job.refresh())


if __name__ == '__main__':
    asyncio.run(main())
