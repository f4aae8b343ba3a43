"""LiveView: a model that learns in front of your eyes. The learner's side of the page."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from hebbnmf.engine._blas import ONE_BLAS_THREAD
from hebbnmf.engine.state import BLOCK, FloatArray
from hebbnmf.estimators import OnlineSNMF
from hebbnmf.live.exchange import Exchange, Order, Snapshot
from hebbnmf.live.pace import Pace
from hebbnmf.live.server import Server
from hebbnmf.parameters import COUNT, POSITIVE, Rule, check_parameter, optional
from hebbnmf.persistence import save
from hebbnmf.persistence.atomic import is_taken
from hebbnmf.persistence.steps import Step
from hebbnmf.streams import Stream
from hebbnmf.training import train

__all__ = ["LiveView"]

# Latest samples that a page shows the responses to.
_SHOWN_ROWS = 2 * BLOCK
# A snapshot is taken this often, in seconds, even if no page asks: one that opens while the source
# is silent then shows the latest state.
_AT_LEAST_EVERY = 0.25
# Longest wait without a look at signals, in seconds.
_NAP = 0.1
_SHAPE = optional(
    Rule(
        "(height, width)",
        lambda v: isinstance(v, tuple) and len(v) == 2 and all(map(COUNT.holds, v)),
    )
)
_PORT = Rule("a port, 0 to 65535", lambda v: v == 0 or (COUNT.holds(v) and int(str(v)) < 65536))
_LIVE_SETTINGS = ("memory", "rank_penalty")


class LiveView:
    """A page on this machine that shows a model as it learns, and lets the reader take part.

    Parameters
    ----------
    model : OnlineSNMF
        The model, new or fitted.
    shape : tuple of int, optional
        Height and width of the picture that a sample is; weights are then shown as pictures.
    name : str, default="a stream"
        What the samples are, for the title.
    checkpoint : path, default="live.npz"
        File that the button "save" writes.
    speed : float, optional
        Samples a second at most, to begin with.
    gentle : bool, default=False
        Whether to begin slowly, so that the first units can be seen as they are born.
    host : str, default="127.0.0.1"
        Address to listen on: this machine alone, unless another one is given.
    port : int, default=8642
        Port to listen on; if it is taken, the next free one. 0 takes any.

    Attributes
    ----------
    url : str
        Address of the page, with the secret that lets a browser in.
    port : int
        The port that was free.

    Notes
    -----
    Whoever has the address can change settings, pause and save, but only to `checkpoint`.

    The server has a thread and an event loop of its own. The learner never waits for it: between
    two chunks it copies its weights if a page has asked for them.

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> from hebbnmf.live import LiveView
    >>> from hebbnmf.streams import open_stream
    >>> X, _ = make_three_gaussians(random_state=0)
    >>> model = OnlineSNMF(3)
    >>> with LiveView(model, port=0) as view:  # print(view.url), and open it
    ...     _ = view.train(open_stream(X))
    >>> model.n_samples_seen_
    300
    """

    def __init__(
        self,
        model: OnlineSNMF,
        *,
        shape: tuple[int, int] | None = None,
        name: str = "a stream",
        checkpoint: str | PathLike[str] = "live.npz",
        speed: float | None = None,
        gentle: bool = False,
        host: str = "127.0.0.1",
        port: int = 8642,
    ) -> None:
        check_parameter("shape", shape, _SHAPE)
        check_parameter("speed", speed, optional(POSITIVE))
        check_parameter("port", port, _PORT)
        self.model = model
        self._checkpoint = fspath(checkpoint)
        self._pace = Pace(speed, gentle=gentle)
        self._exchange = Exchange()
        self._server = Server(self._exchange, host, port)
        self._server.hello |= {"shape": shape, "name": name, "checkpoint": self._checkpoint}
        self._recent: deque[tuple[FloatArray, FloatArray]] = deque()
        self._save: Callable[[], object] = self._save_model
        self._owns_checkpoint = False  # other files are not replaced
        self._clock: float | None = None
        self._state = "learning"
        self._is_changed = False
        self._next_snapshot = 0.0

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._server.stop()

    @property
    def url(self) -> str:
        """Address of the page."""
        return self._server.url

    @property
    def port(self) -> int:
        """The port that the page is served on."""
        return self._server.port

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noopener">hebbnmf live</a>'

    def train(
        self,
        stream: Stream,
        *,
        preprocessing: Sequence[Step] = (),
        **options: Any,
    ) -> OnlineSNMF:
        """Learn a stream to its end, as `hebbnmf.training.train` does, and show it.

        Parameters
        ----------
        stream : Stream
            The samples. Chunks are learned whole: open it with few rows a chunk.
        preprocessing : sequence of fitted transformers, default=()
            Steps that every chunk passes first.
        **options
            Further options of `hebbnmf.training.train`.

        Returns
        -------
        OnlineSNMF
            The model.
        """
        steps = list(preprocessing)
        self._describe(stream.n_features, stream.feature_names, steps)

        def save_checkpoint() -> None:
            save(self.model, self._checkpoint, preprocessing=steps, position=stream.position)

        def keep(rows: FloatArray) -> None:
            self._rows = rows

        def show(_n_rows: int) -> None:
            self._clock = None if stream.times is None else float(stream.times[-1])
            self._after_chunk(stream.last_chunk, self._rows)

        self._save = save_checkpoint
        self._owns_checkpoint |= options.get("checkpoint") == self._checkpoint
        try:
            # The other cores are the browser's: small products on all of them crawl next to it.
            with ONE_BLAS_THREAD:
                return train(
                    self.model,
                    stream,
                    preprocessing=steps,
                    on_rows=keep,
                    on_progress=show,
                    **options,
                )
        finally:
            self._save = self._save_model
            self._show()

    def partial_fit(self, X: ArrayLike) -> Self:
        """Let the model learn a chunk, and show it: for a loop of your own.

        A long chunk is learned in blocks, between which the page is kept alive.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, presented in order.

        Returns
        -------
        self : LiveView
        """
        rows = np.atleast_2d(np.asarray(X))
        names = getattr(X, "columns", None)
        self._describe(rows.shape[1], None if names is None else list(map(str, names)), [])
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            self.model.partial_fit(X[part] if names is None else X.iloc[part])  # type: ignore
            self._after_chunk(rows[part], rows[part])
        return self

    def resume(self) -> None:
        """Go on after a pause, and as fast as it goes; from any thread."""
        self._exchange.order(Order("speed"))
        self._exchange.order(Order("resume"))

    def end(self) -> None:
        """Show that the learning has ended; the page stays until the view is closed."""
        if self._state != "ended":
            self._state = "ended"
            self._show()

    def wait(self) -> None:
        """Keep the page open after the learning, until Ctrl-C."""
        self.end()
        while True:
            self._exchange.wait(_NAP, for_asking=False)
            self._obey_orders()

    def _describe(self, n_features: int, names: list[str] | None, steps: list[Step]) -> None:
        """Tell the server what the samples are."""
        shape = self._server.hello["shape"]
        if shape is not None and shape[0] * shape[1] != n_features:
            raise ValueError(
                f"shape={shape!r} cannot be used for samples of {n_features} features: set it to "
                "a height and width whose product is that number."
            )
        self._server.hello |= {"n_features": n_features, "names": names}
        # Pictures are shown as they were; of other samples the units are those of the network.
        self._server.undone = steps if shape else []

    def _after_chunk(self, chunk: FloatArray, rows: FloatArray) -> None:
        """Note a chunk that was learned, obey orders, and wait as long as the pace asks."""
        self._recent.append((chunk, rows))
        while sum(len(rows) for _, rows in self._recent) - len(self._recent[0][1]) >= _SHOWN_ROWS:
            self._recent.popleft()
        self._is_changed = True
        self._pace.count(len(rows))
        self._attend()
        while (delay := self._pace.delay()) > 0 or not self._pace.take_step():
            nap = min(delay, _NAP) if delay > 0 else _NAP
            self._exchange.wait(nap, for_asking=self._is_changed)
            self._attend()

    def _attend(self) -> None:
        """Obey the orders of pages, and take a snapshot if one is wanted."""
        self._obey_orders()
        wanted = self._exchange.is_asked or time.monotonic() >= self._next_snapshot
        if wanted and self._is_changed:
            self._show()

    def _obey_orders(self) -> None:
        for order in self._exchange.take_orders():
            self._obey(order)
            self._is_changed = True
            if self._state == "ended":
                self._show()

    def _obey(self, order: Order) -> None:
        if order.name in _LIVE_SETTINGS:
            self._set(order)
        elif order.name == "speed":
            self._pace.speed = None if order.value is None else float(order.value)
        elif order.name == "save":
            self._exchange.tell(self._write_checkpoint())
        elif order.name == "step":
            self._pace.step()
        else:
            self._pace.is_paused = order.name == "pause"

    def _set(self, order: Order) -> None:
        """Give the model another setting, if it is one that it takes."""
        former = getattr(self.model, order.name)
        self.model.set_params(**{order.name: order.value})
        try:
            settings = self.model.check_parameters()
        except ValueError as error:
            self.model.set_params(**{order.name: former})
            self._exchange.tell(str(error))
            return
        if hasattr(self.model, "learner_"):
            self.model.learner_.configure(settings)

    def _write_checkpoint(self) -> str:
        """Save as the page asks; return what came of it."""
        if not self._owns_checkpoint and is_taken(self._checkpoint):
            return f"Not saved: {self._checkpoint} exists; move it, or name another checkpoint."
        try:
            self._save()
        except (OSError, TypeError, ValueError) as error:
            return f"Not saved: {error}"
        self._owns_checkpoint = True
        return f"Saved to {self._checkpoint}."

    def _save_model(self) -> None:
        save(self.model, self._checkpoint)

    def _show(self) -> None:
        """Hand over a snapshot, if anything was learned."""
        if not self._recent:
            return
        state = self._state
        if state == "learning" and self._pace.is_paused:
            state = "paused"
        network = self.model.learner_.network
        now = time.monotonic()
        self._is_changed = False
        self._next_snapshot = now + _AT_LEAST_EVERY
        self._exchange.show(
            Snapshot(
                network.state,
                network.rules,
                network.n_samples,
                np.concatenate([chunk for chunk, _ in self._recent])[-_SHOWN_ROWS:],
                np.concatenate([rows for _, rows in self._recent])[-_SHOWN_ROWS:],
                self._clock,
                now,
                state,
                {name: getattr(self.model, name) for name in _LIVE_SETTINGS}
                | {"speed": self._pace.speed},
            )
        )
