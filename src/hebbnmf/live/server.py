"""Server: the page and its socket, on a thread and an event loop of its own."""

import asyncio
import contextlib
import errno
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib import resources
from typing import TYPE_CHECKING

from hebbnmf.live.exchange import Exchange
from hebbnmf.live.guard import App, Guard
from hebbnmf.live.messages import MESSAGE_BYTES, read_message, to_json
from hebbnmf.live.pictures import Painter, Picture
from hebbnmf.persistence.steps import Step

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

__all__ = ["Server"]

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Least seconds between two frames to a page: 20 a second.
_FRAME_SECONDS = 0.05
_MOST_CONNECTIONS = 128
_MOST_PAGES = 16
# Ports that are tried after the one that was asked for.
_MORE_PORTS = 100
_TAKEN = (errno.EADDRINUSE, errno.EACCES)
# Seconds in which a connection must have sent a whole request.
_PATIENCE = 10.0


class Server:
    """Serves the page to whoever knows the secret.

    Attributes
    ----------
    undone : list of fitted transformers
        Preprocessing that samples and filters are shown without.
    """

    def __init__(self, exchange: Exchange, host: str, port: int) -> None:
        self.undone: list[Step] = []
        self.port = port
        self._host = host
        self._exchange = exchange
        self._secret = secrets.token_urlsafe(16)
        self._painter = Painter()
        self._picture: tuple[int, Picture] | None = None  # the newest, and its number
        self._painting: asyncio.Task[None] | None = None
        self._pages: set[_Page] = set()

    @property
    def url(self) -> str:
        """Address of the page."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self._host)
        host = host or (f"[{self._host}]" if ":" in self._host else self._host)
        return f"http://{host}:{self.port}/{self._secret}/"

    def start(self) -> None:
        """Listen, and serve on a thread."""
        try:
            import uvicorn
        except ImportError as error:
            raise ImportError(
                "the live page needs starlette and uvicorn: install them with "
                "pip install 'hebbnmf[live]'."
            ) from error
        listener = _listen(self._host, self.port)
        self.port = listener.getsockname()[1]
        is_public = not listener.getsockname()[0].startswith(("127.", "::1"))
        config = uvicorn.Config(
            Guard(self._app(), self._secret, self.port, is_public=is_public),
            http=_impatient_protocol(),
            ws="websockets-sansio",
            ws_max_size=MESSAGE_BYTES,
            ws_per_message_deflate=False,  # noise does not shrink
            h11_max_incomplete_event_size=2**14,
            limit_concurrency=_MOST_CONNECTIONS,
            lifespan="off",
            log_config=None,
            log_level="critical",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=0,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listener)), name="hebbnmf live", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and end the thread."""
        self._server.should_exit = True
        self._thread.join(timeout=1)

    async def _serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to draw
                loop.call_soon_threadsafe(self._wake_pages)

        self._exchange.listen(wake)
        await self._server.serve(sockets=[listener])

    def _wake_pages(self) -> None:
        for page in self._pages:
            page.wake()

    def _app(self) -> App:
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Route, WebSocketRoute

        files = {
            file.name: Response(file.read_bytes(), media_type=_TYPES[suffix])
            for file in resources.files("hebbnmf.live").joinpath("page").iterdir()
            if (suffix := "." + file.name.rpartition(".")[2]) in _TYPES
        }

        async def get(request: "Request") -> "Response":
            name = request.path_params.get("name", "index.html")
            return files.get(name) or Response("No such file.\n", 404, media_type="text/plain")

        return Starlette(
            routes=[WebSocketRoute("/socket", self._talk), Route("/{name}", get), Route("/", get)]
        )

    async def _talk(self, socket: "WebSocket") -> None:
        """Talk with one page until either side hangs up."""
        if len(self._pages) >= _MOST_PAGES:
            await socket.close(1013)
            return
        await socket.accept()
        page = _Page(socket)
        self._pages.add(page)
        # Two tasks: the first frame may wait for kernels to be compiled, which the page is told.
        tasks = [asyncio.create_task(send(page)) for send in (self._send_facts, self._send_frames)]
        try:
            while page.is_open:
                await self._receive(page)
        finally:
            self._pages.discard(page)
            for task in tasks:
                task.cancel()

    async def _receive(self, page: "_Page") -> None:
        event = await page.socket.receive()
        if event["type"] == "websocket.disconnect":
            page.is_open = False
            return
        try:
            message = read_message(event.get("text") or "")
        except ValueError:
            page.is_open = False
            await page.socket.close(1003)
            return
        if message.order is not None:
            self._exchange.order(message.order)
        if message.chooses:
            page.unit = message.unit
            page.shown = -1  # the same picture again, with another unit
        page.is_ready |= message.is_ready
        page.wake()

    async def _send_facts(self, page: "_Page") -> None:
        """Tell the page what is shown and how things are, at first and whenever that changes."""
        from starlette.websockets import WebSocketDisconnect

        told = None
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it has hung up
            while True:
                if told is not self._exchange.hello:
                    told = self._exchange.hello
                    await page.socket.send_text(to_json(told))
                await page.facts.wait()
                page.facts.clear()

    async def _send_frames(self, page: "_Page") -> None:
        """Send the page a frame whenever it is ready for one, and there is news."""
        from starlette.websockets import WebSocketDisconnect

        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it has hung up
            while True:
                await page.news.wait()
                page.news.clear()
                if not page.is_ready:
                    continue
                if page.shown == self._exchange.number or self._exchange.snapshot is None:
                    self._exchange.ask()
                    continue
                page.is_ready = False
                page.shown, picture = await self._paint()
                await page.socket.send_bytes(picture.encode(page.unit))
                await asyncio.sleep(_FRAME_SECONDS)

    async def _paint(self) -> tuple[int, Picture]:
        """Return the picture of the newest snapshot, or the one in hand; all pages share it."""
        if self._picture is None or self._picture[0] != self._exchange.number:
            if self._painting is None or self._painting.done():
                self._painting = asyncio.create_task(self._paint_newest())
            # It goes on if this page closes: a painter paints one picture at a time.
            await asyncio.shield(self._painting)
            assert self._picture is not None
        return self._picture

    async def _paint_newest(self) -> None:
        number, snapshot = self._exchange.number, self._exchange.snapshot
        assert snapshot is not None
        # Not on the loop: the first picture may wait for kernels to be compiled.
        picture = await _in_thread(lambda: self._painter.paint(snapshot, self.undone))
        self._picture = number, picture


class _Page:
    """One open page: what it shows, and whether it is ready for more."""

    def __init__(self, socket: "WebSocket") -> None:
        self.socket = socket
        self.unit: int | None = None
        self.shown = -1
        self.is_ready = False
        self.is_open = True
        self.news = asyncio.Event()
        self.facts = asyncio.Event()

    def wake(self) -> None:
        """Let both tasks see what is new."""
        self.news.set()
        self.facts.set()


async def _in_thread(paint: Callable[[], Picture]) -> Picture:
    """Paint in a thread that, unlike those of asyncio, keeps no process from its end."""
    future: Future[Picture] = Future()
    future.set_running_or_notify_cancel()

    def call() -> None:
        try:
            future.set_result(paint())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, name="hebbnmf painter", daemon=True).start()
    return await asyncio.wrap_future(future)


def _listen(host: str, port: int) -> socket.socket:
    """Listen on a port, or on the next one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last = min(port + _MORE_PORTS, 65535) if port else 0
    for candidate in range(port, last + 1):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen()
            return listener
        except OSError as error:
            listener.close()
            taken = error
            if error.errno not in _TAKEN:
                break
    raise OSError(f"no page can be served on {host}, port {port} to {last}: {taken.strerror}.")


def _impatient_protocol() -> type[asyncio.Protocol]:
    """Make uvicorn's protocol hang up on connections that send no request."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(_PATIENCE, self._give_up)

        def _give_up(self) -> None:
            # Sockets have left the connections of HTTP.
            if self.cycle is None and self in self.connections:
                self.transport.close()

    return Impatient
