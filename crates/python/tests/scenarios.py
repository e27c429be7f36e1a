"""Runs that Phoenix's executors and ours must do alike. Each takes the module and gives what can be compared.

Attempts take less than a second, and no multiple of half a second. Phoenix's workers give up waiting for work after one
second; after a collapse, when only the first of them may work, a run whose first worker has given up never ends.
"""

import asyncio

from reverie import exceptions

ASYNCHRONOUS, SYNCHRONOUS = {}, {}


def asynchronous(function):
    ASYNCHRONOUS[function.__name__] = function
    return function


def synchronous(function):
    SYNCHRONOUS[function.__name__] = function
    return function


def errors(module):
    """The exceptions of the library itself: both must know Phoenix's, ours only its own as well."""
    if module.__name__.startswith("phoenix"):
        from phoenix.evals import exceptions as phoenix
        from phoenix.evals.rate_limiters import RateLimitError

        return phoenix.PhoenixException, phoenix.PhoenixContextLimitExceeded, RateLimitError
    return exceptions.PhoenixException, exceptions.PhoenixContextLimitExceeded, exceptions.RateLimitError


def plain(outputs, details, *more):
    """Outputs, statuses and exceptions in a form that can be compared."""
    outputs = ["unset" if type(output).__name__ == "Unset" else output for output in outputs]
    return (
        outputs,
        [detail.status.value for detail in details],
        [[type(error).__name__ for error in detail.exceptions] for detail in details],
        *more,
    )


class Scripted:
    """Fails on each value as often as it is told to, and keeps the order of its attempts."""

    def __init__(self, failures, sleep=0.0):
        self.failures = {value: list(errors) for value, errors in failures.items()}
        self.sleep = sleep
        self.made = []

    def attempt(self, value):
        self.made.append(value)
        if self.failures.get(value):
            raise self.failures[value].pop(0)
        return value * 10

    async def __call__(self, value):
        await asyncio.sleep(self.sleep)
        return self.attempt(value)


@asynchronous
async def outputs_in_order(module):
    async def slow_first(value):
        await asyncio.sleep((12 - value) / 100)
        return value

    return plain(*await module.AsyncExecutor(slow_first, concurrency=6).execute(list(range(12))))


@asynchronous
async def no_inputs(module):
    return plain(*await module.AsyncExecutor(Scripted({})).execute([]))


@asynchronous
async def mixed(module):
    permanent, _, limited = errors(module)

    async def task(kind):
        if kind == "slow":
            await asyncio.sleep(3600)
        if kind != "ok":
            raise {"permanent": permanent, "value": ValueError, "limited": limited}[kind](kind)
        return kind

    executor = module.AsyncExecutor(
        task, concurrency=5, max_retries=2, timeout=0.37, exit_on_error=False, enable_dynamic_concurrency=False
    )
    outputs, details = await executor.execute(["ok", "permanent", "value", "limited", "slow"])
    # The time of all three attempts counts.
    return plain(outputs, details, details[4].execution_seconds > 1.1)


@asynchronous
async def retries_go_first(module):
    task = Scripted({2: [ValueError()] * 3, 5: [OSError()]})
    outputs, details = await module.AsyncExecutor(task, concurrency=1).execute(list(range(8)))
    return plain(outputs, details, task.made)


@asynchronous
async def exit_on_error(module):
    task = Scripted({3: [ValueError()] * 9})
    executor = module.AsyncExecutor(task, concurrency=1, max_retries=2, fallback_return_value=52)
    return plain(*await executor.execute(list(range(6))), task.made)


@asynchronous
async def exit_cancels_what_runs(module):
    async def task(value):
        await asyncio.sleep(0.1 if value == 0 else 30)
        raise ValueError

    executor = module.AsyncExecutor(task, concurrency=4, max_retries=0, fallback_return_value=None)
    return plain(*await executor.execute(list(range(9))))


@asynchronous
async def going_on_after_errors(module):
    task = Scripted({1: [ValueError()] * 9, 4: [errors(module)[1]()] * 9})
    executor = module.AsyncExecutor(task, concurrency=2, max_retries=1, exit_on_error=False)
    outputs, details = await executor.execute(list(range(6)))
    return plain(outputs, details, sorted(task.made))


@asynchronous
async def timeouts(module):
    async def task(value):
        # An even one never waits, so that no pause of a busy machine comes between its start and its end.
        if value % 2:
            await asyncio.sleep(3600)
        return value

    executor = module.AsyncExecutor(task, concurrency=3, max_retries=1, timeout=0.3, exit_on_error=False)
    return plain(*await executor.execute(list(range(5))))


@asynchronous
async def a_result_after_its_time(module):
    async def task(value):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "late"

    executor = module.AsyncExecutor(task, max_retries=0, timeout=0.2, exit_on_error=False)
    return plain(*await executor.execute([1, 2]))


@asynchronous
async def a_function_that_raises_at_once(module):
    def task(value):
        raise OSError

    executor = module.AsyncExecutor(task, max_retries=2, exit_on_error=False)
    return plain(*await executor.execute([1, 2]))


@asynchronous
async def a_replaced_controller(module):
    heard = []

    class Controller:
        target_concurrency = 1
        inactive_check_interval = 0.01

        def record_success(self, latency_seconds):
            heard.append("success")

        def record_timeout(self):
            heard.append("timeout")

        def record_error(self):
            heard.append("error")

    async def task(kind):
        if kind == "slow":
            await asyncio.sleep(30)
        if kind != "ok":
            raise {"value": ValueError, "limited": errors(module)[2], "permanent": errors(module)[0]}[kind]("")

    executor = module.AsyncExecutor(task, concurrency=3, max_retries=1, timeout=0.2, exit_on_error=False)
    executor._concurrency_controller = Controller()
    result = plain(*await executor.execute(["ok", "limited", "value", "permanent", "slow", "ok"]))
    return *result, heard


@asynchronous
async def a_collapse(module):
    task = Scripted({value: [errors(module)[2]("")] for value in range(4)}, sleep=0.01)
    executor = module.AsyncExecutor(task, concurrency=4, dynamic_inactive_check_interval=0.1)
    outputs, details = await executor.execute(list(range(8)))
    return plain(outputs, details, executor._concurrency_controller.target_concurrency)


@synchronous
def in_order(module):
    task = Scripted({2: [ValueError(), errors(module)[2]("")]})
    return plain(*module.SyncExecutor(task.attempt).run(list(range(5))), task.made)


@synchronous
def exit_on_error_one_by_one(module):
    task = Scripted({2: [ValueError()] * 9})
    return plain(*module.SyncExecutor(task.attempt, max_retries=3).run(list(range(5))), task.made)


@synchronous
def permanent_one_by_one(module):
    task = Scripted({2: [errors(module)[0]()] * 9})
    executor = module.SyncExecutor(task.attempt, exit_on_error=False, fallback_return_value=None)
    return plain(*executor.run(list(range(5))), task.made)


@synchronous
def no_inputs_one_by_one(module):
    return plain(*module.SyncExecutor(Scripted({}).attempt).run([]))
