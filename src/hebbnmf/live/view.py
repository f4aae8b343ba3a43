"""LiveView: a model that learns in front of your eyes. The learner's side of the page."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from os import PathLike, fspath
from os.path import realpath
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse
from sklearn.base import clone

from hebbnmf.engine._blas import ONE_BLAS_THREAD
from hebbnmf.engine.compiling import watch_compiler
from hebbnmf.engine.state import BLOCK, FloatArray
from hebbnmf.estimators import OnlineSNMF
from hebbnmf.live.exchange import SHOWN_ROWS, Exchange, Order, Snapshot
from hebbnmf.live.pace import Pace
from hebbnmf.live.server import Server
from hebbnmf.parameters import COUNT, POSITIVE, Rule, check_parameter, count_up_to, optional
from hebbnmf.persistence import save
from hebbnmf.persistence.atomic import is_taken
from hebbnmf.persistence.steps import Step
from hebbnmf.streams import Stream
from hebbnmf.training import train

__all__ = ["LiveView"]

logger = logging.getLogger(__name__)

# Chunks that are kept, beside twice those that are shown, until the older ones are dropped.
_MORE_CHUNKS = 8
# Longest sleep without a look at signals, in seconds.
_NAP = 0.1
_SHAPE = optional(
    Rule(
        "(height, width)",
        lambda v: isinstance(v, tuple) and len(v) == 2 and all(map(COUNT.holds, v)),
    )
)
_PORT = Rule("a port, 0 to 65535", lambda v: v == 0 or count_up_to(65535).holds(v))
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
    two chunks it looks at two flags, and copies its weights if a page has asked for them. While it
    waits for samples, a third thread does that, and obeys the page.

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
        if not isinstance(model, OnlineSNMF):
            raise TypeError(
                f"{type(model).__name__} cannot be shown: the page shows networks of non-negative "
                "units alone; give an OnlineSNMF."
            )
        model.check_parameters()
        check_parameter("shape", shape, _SHAPE)
        check_parameter("speed", speed, optional(POSITIVE))
        check_parameter("port", port, _PORT)
        self.model = model
        self._checkpoint = fspath(checkpoint)
        self._pace = Pace(speed, gentle=gentle)
        self._exchange = Exchange()
        self._server = Server(self._exchange, host, port)
        self._shape = shape
        self._stream: Stream | None = None
        self._recent: list[tuple[FloatArray, FloatArray]] = []  # chunks, as read and as learned
        self._most_recent = _MORE_CHUNKS
        self._save: Callable[[str], None] = self._save_model
        self._owns_checkpoint = False  # other files are not replaced
        self._has_ended = False
        self._n_shown = 0  # samples that the snapshot before has learned
        self._is_changed = False  # otherwise than by learning
        self._note = (0, "")  # the latest message to the reader of the page, numbered
        # Whoever attends to the page holds the desk, and nobody does while a chunk is learned.
        self._is_learning = False
        self._desk = threading.Lock()
        self._stack = ExitStack()
        self._exchange.tell(
            n_features=None,
            names=None,
            shape=shape,
            name=name,
            checkpoint=self._checkpoint,
            compiling=None,
        )
        self._report()

    def __enter__(self) -> Self:
        self._server.start()
        self._stack.callback(self._server.stop)
        tell = self._exchange.tell
        self._stack.enter_context(
            watch_compiler(lambda: tell(compiling=time.time()), lambda: tell(compiling=None))
        )
        attendant = threading.Thread(target=self._attend_to_calls, name="hebbnmf page", daemon=True)
        attendant.start()
        self._stack.callback(attendant.join, timeout=1)
        self._stack.callback(self._exchange.close)
        self._stack.callback(self.end)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

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
        checkpoint = options.get("checkpoint")

        def begin(save: Callable[[str], None]) -> None:
            """Take over, once the checkpoint is accepted."""
            self._stream, self._save = stream, save
            if checkpoint is not None and realpath(checkpoint) == realpath(self._checkpoint):
                self._owns_checkpoint = True

        try:
            # The other cores are the browser's: small products on all of them crawl next to it.
            with ONE_BLAS_THREAD:
                return train(
                    self.model,
                    stream,
                    preprocessing=steps,
                    on_begin=begin,
                    on_rows=self._begin_chunk,
                    on_progress=self._end_chunk,
                    **options,
                )
        finally:
            self._release()
            with self._desk:
                self._copy_chunks()

    def partial_fit(self, X: ArrayLike) -> Self:
        """Let the model learn a chunk, and show it: for a loop of your own.

        A long chunk is learned in blocks, between which the page is kept alive.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples, presented in order.

        Returns
        -------
        self : LiveView
        """
        if issparse(X):
            X = csr_array(X).toarray()
        rows = np.array(X, ndmin=2)  # a copy: the caller may use its array again
        names = getattr(X, "columns", None)
        self._describe(rows.shape[1], None if names is None else list(map(str, names)), [])
        self._save, self._stream = self._save_model, None
        try:
            for start in range(0, len(rows), BLOCK):
                part = slice(start, start + BLOCK)
                self._begin_chunk(rows[part])
                self.model.partial_fit(X[part] if names is None else X.iloc[part])  # type: ignore
                self._end_chunk(len(rows[part]))
        finally:
            self._release()
        return self

    def resume(self) -> None:
        """Go on after a pause, and as fast as it goes; from any thread."""
        self._exchange.order(Order("speed"))
        self._exchange.order(Order("resume"))

    def end(self) -> None:
        """Show that the learning has ended; the page stays until the view is closed."""
        if not self._has_ended:
            self._has_ended = self._is_changed = True
            with self._desk:
                self._report()
                self._try("picture", self._show)

    def wait(self) -> None:
        """Keep the page open after the learning, until Ctrl-C."""
        self.end()
        while True:
            time.sleep(_NAP)

    def _describe(self, n_features: int, names: list[str] | None, steps: list[Step]) -> None:
        """Tell the pages what the samples are."""
        if self._shape is not None and self._shape[0] * self._shape[1] != n_features:
            raise ValueError(
                f"shape={self._shape!r} cannot be used for samples of {n_features} features: set "
                "it to a height and width whose product is that number."
            )
        # Pictures are shown as they were; of other samples the units are those of the network.
        self._server.undone = steps if self._shape else []
        self._exchange.tell(n_features=n_features, names=names)

    def _begin_chunk(self, rows: FloatArray) -> None:
        """Wait as long as the pace asks, then let nobody touch the model."""
        # This and the next run for every chunk: a microsecond may be a percent of its time.
        self._rows = rows
        self._is_learning = True
        if self._desk.locked() or not self._pace.is_free:
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        while True:
            self._is_learning = True
            with self._desk:  # no order is obeyed from here on
                pass
            if self._pace.is_free or self._pace.take():
                return
            self._release()
            self._pace.wait()

    def _end_chunk(self, n_rows: int) -> None:
        """Note a chunk that was learned, and attend to the page if it has called meanwhile."""
        rows, stream = self._rows, self._stream
        self._recent.append((rows if stream is None else stream.last_chunk, rows))
        if len(self._recent) > self._most_recent:
            self._forget()
        self._release()
        if not self._pace.is_free:
            self._pace.count(n_rows)

    def _release(self) -> None:
        """Let the model be touched again, and attend to the page if it has called meanwhile."""
        # In this order: a call that comes now is seen here, or by the other thread.
        self._is_learning = False
        if self._exchange.is_called:
            self._attend()

    def _forget(self) -> None:
        """Drop chunks that are shown no longer."""
        n_rows, start = 0, len(self._recent)
        while n_rows < SHOWN_ROWS and start:
            start -= 1
            n_rows += len(self._recent[start][1])
        self._recent = self._recent[start:]
        self._most_recent = 2 * len(self._recent) + _MORE_CHUNKS

    def _copy_chunks(self) -> None:
        """Keep copies of the chunks that are shown: the caller may use its array again."""
        self._forget()
        self._recent = [(read.copy(), rows.copy()) for read, rows in self._recent]

    def _attend_to_calls(self) -> None:
        """Attend to the page whenever it calls, in a thread of its own, unless a chunk is learned.

        The learner attends to it then, at the end of the chunk.
        """
        for _ in self._exchange.calls():
            self._attend()

    def _attend(self) -> None:
        """Obey the orders of pages, and take a snapshot if one is wanted, between two chunks."""
        with self._desk:
            if self._is_learning or self._exchange.is_over:
                return
            for order in self._exchange.take_orders():
                self._try(order.name, self._obey, order)
                self._is_changed = True
                self._report()
            if self._exchange.is_asked and self._has_news():
                self._try("picture", self._show)
            elif self._exchange.is_asked:
                self._exchange.is_called = True  # there will be something after the next chunk

    def _try(self, what: str, act: Callable[..., None], *args: Any) -> None:
        """Do what a page wants; if that fails, the reader is told, and the training goes on."""
        try:
            act(*args)
        except Exception as error:
            logger.exception("what a page has asked for, %s, failed", what)
            self._say(f"{what} failed: {error!r}")

    def _obey(self, order: Order) -> None:
        if order.name in _LIVE_SETTINGS:
            self._set(order)
        elif order.name == "speed":
            self._pace.speed = None if order.value is None else float(order.value)
        elif order.name == "save":
            self._say(self._write_checkpoint())
        elif order.name == "step":
            self._pace.step()
        elif order.name == "pause":
            self._pace.pause()
        else:
            self._pace.resume()

    def _set(self, order: Order) -> None:
        """Give the model another setting, if it is one that it takes."""
        setting = {order.name: order.value}
        try:
            settings = clone(self.model).set_params(**setting).check_parameters()
            if hasattr(self.model, "learner_"):
                self.model.learner_.configure(settings)
        except ValueError as error:
            self._say(str(error))
        else:
            self.model.set_params(**setting)

    def _write_checkpoint(self) -> str:
        """Save as the page asks; return what came of it."""
        if not self._recent:
            return "Not saved: nothing is learned yet."
        if not self._owns_checkpoint and is_taken(self._checkpoint):
            return f"Not saved: {self._checkpoint} exists; move it, or name another checkpoint."
        try:
            self._save(self._checkpoint)
        except (OSError, TypeError, ValueError) as error:
            return f"Not saved: {error}"
        self._owns_checkpoint = True
        return f"Saved to {self._checkpoint}."

    def _save_model(self, path: str) -> None:
        save(self.model, path)

    def _say(self, text: str) -> None:
        """Leave a message for the reader of the page."""
        self._note = (self._note[0] + 1, text)

    def _report(self) -> None:
        """Tell the pages how things are, though there be no new picture."""
        self._exchange.tell(**self._status())

    def _status(self) -> dict[str, Any]:
        state = "learning" if self._recent else "waiting"
        if self._has_ended:
            state = "ended"
        elif self._pace.is_paused:
            state = "paused"
        settings = {name: getattr(self.model, name) for name in _LIVE_SETTINGS}
        return {
            "state": state,
            "settings": settings | {"speed": self._pace.speed},
            "note": self._note,
        }

    def _has_news(self) -> bool:
        """Return whether a new snapshot would show anything new."""
        return bool(self._recent) and (
            self._is_changed or self.model.learner_.network.n_samples != self._n_shown
        )

    def _show(self) -> None:
        """Hand over a snapshot, if anything was learned."""
        if not self._recent:
            return
        self._copy_chunks()
        network = self.model.learner_.network
        times = None if self._stream is None else self._stream.times
        snapshot = Snapshot(
            network.state,
            network.rules,
            network.n_samples,
            list(self._recent),
            None if times is None or not len(times) else float(times[-1]),
            time.monotonic(),
            self._status(),
        )
        self._n_shown, self._is_changed = network.n_samples, False
        self._exchange.show(snapshot)
