"""What the tests share."""

import importlib.util
import signal

import pytest

from workspace import NO_BROWSER, Provider, Slow, Workspace

# Why a test may be skipped all the same: what this version of Python does not have, no program has there; and a browser
# comes from the system, into which only an administrator can install.
ALLOWED = ("eager tasks came with Python 3.12", NO_BROWSER)

# A shell starts what it puts into the background with interrupts ignored; tests send some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--no-skips", action="store_true", help="a test that was skipped for an unexpected reason is a failure")


def pytest_terminal_summary(terminalreporter, config):
    """A test that was skipped is named, at the end, with the reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"{len(skipped)} skipped", sep="-")
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {reason(report)}")


def reason(report) -> str:
    """Why a test was skipped."""
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    unexpected = [report for report in skipped if not any(allowed in reason(report) for allowed in ALLOWED)]
    if exitstatus == 0 and session.config.getoption("--no-skips") and unexpected:
        session.exitstatus = 1


@pytest.fixture
def phoenix():
    """Phoenix's executors, where they are installed."""
    if importlib.util.find_spec("phoenix") is None:
        pytest.skip("arize-phoenix-evals is not installed")
    from phoenix.evals import executors

    return executors


@pytest.fixture
def provider():
    """A provider that answers after a twentieth of a second."""
    made = Provider(latency={"constant": {"seconds": 0.05}})
    yield made
    made.stop()


@pytest.fixture
def slow():
    """An endpoint that streams a word every twentieth of a second."""
    server = Slow()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def small(tmp_path):
    """Six documents with a question each."""
    return Workspace(tmp_path, documents=6)
