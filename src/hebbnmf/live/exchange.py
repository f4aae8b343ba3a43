"""Exchange: what passes between the thread that learns and the one that serves pages.

The learner looks at one flag between chunks. Only when it is set does it copy its weights, and only
then, or with orders to obey, does it take a lock that the other side holds for microseconds.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hebbnmf.engine.state import FloatArray, Rules, Weights

__all__ = ["Exchange", "Order", "Snapshot"]

# Orders that wait at most: a page that sends more than the learner obeys loses the oldest.
_MOST_ORDERS = 64


class Order(NamedTuple):
    """What a page asks of the learner: an action, or a setting with its value."""

    name: str
    value: float | str | None = None


class Snapshot(NamedTuple):
    """A network between two chunks: copies that belong to the reader."""

    weights: Weights
    rules: Rules
    n_samples: int
    read: FloatArray  # the latest rows as they were read
    rows: FloatArray  # and as the network learned them
    clock: float | None  # the time of the last row by the clock of the source, in seconds
    taken: float  # when, by time.monotonic
    state: str  # "learning", "paused" or "ended"
    settings: dict[str, float | str | None]  # those that a page can change


class Exchange:
    """A mailbox between two threads: the newest snapshot one way, orders the other way."""

    def __init__(self) -> None:
        self.is_asked = False  # whether a page waits for a snapshot
        self.snapshot: Snapshot | None = None
        self.number = 0  # of the snapshot
        self.note = (0, "")  # the latest message to the reader of the page, numbered
        self._orders: deque[Order] = deque(maxlen=_MOST_ORDERS)
        self._arrival = threading.Condition()
        self._on_news: Callable[[], object] = lambda: None

    def listen(self, on_news: Callable[[], object]) -> None:
        """Call a function, from the learner's thread, whenever there is something to show."""
        self._on_news = on_news

    def ask(self) -> None:
        """Ask the learner for a snapshot."""
        with self._arrival:
            self.is_asked = True
            self._arrival.notify()

    def order(self, order: Order) -> None:
        """Give the learner an order."""
        with self._arrival:
            self._orders.append(order)
            self._arrival.notify()

    def take_orders(self) -> Sequence[Order]:
        """Return the orders that have come, oldest first; called by the learner."""
        if not self._orders:
            return ()
        with self._arrival:
            orders = tuple(self._orders)
            self._orders.clear()
        return orders

    def show(self, snapshot: Snapshot) -> None:
        """Hand over a snapshot; called by the learner."""
        self.is_asked = False
        self.snapshot = snapshot
        self.number += 1
        self._on_news()

    def tell(self, text: str) -> None:
        """Leave a message for the reader of the page; called by the learner."""
        self.note = (self.note[0] + 1, text)

    def wait(self, seconds: float, *, for_asking: bool) -> None:
        """Wait until an order comes, or a page asks, or time is up; called by the learner."""
        with self._arrival:
            if not self._orders and not (for_asking and self.is_asked):
                self._arrival.wait(seconds)
