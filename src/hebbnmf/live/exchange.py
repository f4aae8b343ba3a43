"""Exchange: what passes between the threads that learn and attend and the one that serves pages."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from hebbnmf.engine.state import BLOCK, FloatArray, Rules, Weights

__all__ = ["SHOWN_ROWS", "Exchange", "Order", "Snapshot"]

# Latest samples that a page shows the responses to.
SHOWN_ROWS = 2 * BLOCK

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
    chunks: list[tuple[FloatArray, FloatArray]]  # the latest rows, as read and as learned
    clock: float | None  # the time of the last row by the clock of the source, in seconds
    taken: float  # when, by time.monotonic
    status: dict[str, Any]  # what the page is told of the learner; JSON

    def latest(self, *, prepared: bool) -> FloatArray:
        """Return the latest rows as the network learned them, or as they were read."""
        return np.concatenate([pair[prepared] for pair in self.chunks])[-SHOWN_ROWS:]


class Exchange:
    """A mailbox: the newest snapshot one way, orders and the wish for another one the other way."""

    def __init__(self) -> None:
        self.is_called = False  # whether a page wants anything: the learner looks at no more
        self.is_asked = False  # whether a page waits for a snapshot
        self._orders: deque[Order] = deque(maxlen=_MOST_ORDERS)
        self.snapshot: Snapshot | None = None
        self.number = 0  # of the snapshot
        self.hello: dict[str, Any] = {}  # what a page is told first, and when it changes; JSON
        self.is_over = False
        self._call = threading.Event()
        self._telling = threading.Lock()
        self._on_news: Callable[[], object] = lambda: None

    def listen(self, on_news: Callable[[], object]) -> None:
        """Call a function, from any thread, whenever there is something to show."""
        self._on_news = on_news

    def ask(self) -> None:
        """Ask for a snapshot."""
        self.is_asked = self.is_called = True
        self._call.set()

    def order(self, order: Order) -> None:
        """Give an order."""
        self._orders.append(order)
        self.is_called = True
        self._call.set()

    def take_orders(self) -> Iterator[Order]:
        """Yield the orders that have come, oldest first."""
        self.is_called = False  # before they are taken: one that comes now calls again
        while self._orders:
            yield self._orders.popleft()

    def show(self, snapshot: Snapshot) -> None:
        """Hand over a snapshot."""
        self.is_asked = False
        self.snapshot = snapshot
        self.number += 1
        self._on_news()

    def tell(self, **facts: Any) -> None:
        """Tell the pages more of what they are greeted with, unless they know it."""
        with self._telling:
            hello = self.hello | facts
            if hello == self.hello:
                return
            self.hello = hello
        self._on_news()

    def calls(self) -> Iterator[None]:
        """Wait for pages that ask or order something, again and again until `close`."""
        while not self.is_over:
            self._call.wait()
            self._call.clear()
            yield

    def close(self) -> None:
        """End `calls`."""
        self.is_over = True
        self._call.set()
