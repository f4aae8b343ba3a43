"""Guard: lets in only pages that know the secret, from the address that they were served from."""

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Guard"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = {
    # No script, style or picture but our own, and no connection but to here.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Guard:
    """An ASGI application around another one, which sees the path behind the secret alone.

    A request is refused unless its path begins with the secret, its `Host` is an address of this
    server (a name that an attacker has pointed here is not), and its `Origin`, which a socket must
    have, is that of the page.
    """

    def __init__(self, app: App, secret: str, port: int, *, is_public: bool) -> None:
        self._app, self._secret, self._port = app, secret, port
        self._names = {"localhost"}
        if is_public:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self._is_public = is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if not self._is_welcome(scope):
            await _refuse(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *extra]
            await send(message)

        path = "/" + scope["path"].split("/", 2)[2]
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await self._app(inner, receive, send_with_headers)

    def _is_welcome(self, scope: Scope) -> bool:
        parts = scope["path"].split("/", 2)
        if len(parts) < 3 or not hmac.compare_digest(parts[1].encode(), self._secret.encode()):
            return False
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(hosts) != 1 or not self._is_ours(hosts[0].decode("latin-1")):
            return False
        if scope["type"] == "websocket" and not origins:
            return False
        return all(origin == b"http://" + hosts[0] for origin in origins)

    def _is_ours(self, host: str) -> bool:
        """Return whether a host, with its port, is this server by number or by its own name."""
        name, _, port = host.rpartition(":")
        if port != str(self._port):
            return False
        if name.lower() in self._names:
            return True
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self._is_public or address.is_loopback


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    text = b"Refused: open the address that hebbnmf has printed, with its secret.\n"
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": text})
