import signal
from collections import Counter

import pytest
from hypothesis import settings

# The same examples in every run, and no clock: the first call of a kernel compiles it.
settings.register_profile("hebbnmf", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("hebbnmf")


def pytest_terminal_summary(terminalreporter):
    """End with a table of what the soak tests counted, each under a name."""
    totals = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, counts in report.user_properties:
            totals.setdefault(name, Counter()).update(counts)
    if totals:
        terminalreporter.section("soak")
    for name, counts in totals.items():
        numbers = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        terminalreporter.line(f"{name:20}{numbers}")


@pytest.fixture(autouse=True)
def _interruptible():
    """Let Ctrl-C raise KeyboardInterrupt, whatever a shell in the background or a test left."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
