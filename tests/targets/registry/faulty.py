"""A layer over the real registry that does what networks and hostile servers do: on plain HTTP, at a port of its own.

A fault is asked for by method and a part of the path, and happens once for each time that it was asked for. The layer
can also want bearer tokens, from a token server at its own port, and list referrers, which docker-registry cannot.
"""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.places.remote import Remote
from tests.targets.registry.server import PASSWORD, USER, Server, log_in

_BASIC = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
_FORWARDED = ("Accept", "Content-Type", "Content-Length", "Range")


@dataclass(frozen=True)
class Fault:
    """What happens to one response.

    status, headers, body: in place of the registry's.
    cut:     the connection ends after so many bytes of the body.
    flip:    the byte at this place is another.
    longer:  so many bytes more come.
    shorter: the body lacks so many bytes at its end, and says so.
    pause:   seconds before each 64 KiB.
    early:   the connection ends before the request is read.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    flip: int | None = None
    longer: int = 0
    shorter: int = 0
    pause: float = 0.0
    early: bool = False


class Layer:
    """The layer while it runs. seen: method, path and headers of all requests."""

    def __init__(self, registry: Server, folder: Path) -> None:
        self.registry = registry
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.faults: list[tuple[str, str, Fault]] = []
        self.wants_tokens = self.has_referrers = False
        self.tokens: set[str] = set()
        self.referrers: dict[str, list[dict[str, Any]]] = {}
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"layer": self}))
        self.host = f"localhost:{self.server.server_port}"
        (folder / str(self.server.server_port)).mkdir()
        self.environ = log_in(folder / str(self.server.server_port), self.host)
        self.context = ssl.create_default_context(cafile=registry.environ["SSL_CERT_FILE"])

    def next(self, method: str, part: str, *faults: Fault) -> None:
        """The faults of the next requests of this kind, in turn."""
        self.faults += [(method, part, fault) for fault in faults]

    def reference(self, repository: str, tag: str = "") -> Reference:
        return Reference(self.host, repository, tag, plain=True)

    def remote(self, repository: str) -> Remote:
        return Remote(self.reference(repository), self.environ)

    def asked(self, method: str, part: str = "") -> list[dict[str, str]]:
        """The headers of the requests of a kind."""
        return [headers for how, path, headers in self.seen if how == method and part in path]

    def take(self, method: str, path: str, allowed: bool) -> Fault:
        """The fault for a request; one that changes what the registry gives waits until it gives something."""
        with self.lock:
            for each in self.faults:
                if each[0] == method and each[1] in path and (allowed or each[2].status or each[2].early):
                    self.faults.remove(each)
                    return each[2]
        return Fault()


@contextmanager
def over(registry: Server, folder: Path) -> Iterator[Layer]:
    layer = Layer(registry, folder)
    thread = threading.Thread(target=layer.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield layer
    finally:
        layer.server.shutdown()
        layer.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    layer: Layer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def _any(self) -> None:
        method, layer = self.command, self.layer
        layer.seen.append((method, self.path, dict(self.headers)))
        fault = layer.take(method, self.path, "Authorization" in self.headers)
        if fault.early:
            self.close_connection = True
            return
        if self.path.startswith("/token"):
            self._token()
            return
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if layer.wants_tokens and self.headers.get("Authorization") not in {
            f"Bearer {token}" for token in layer.tokens
        }:
            realm = f'Bearer realm="http://{layer.host}/token",service="here",scope="repository:x:pull,push"'
            self._send(401, {"WWW-Authenticate": realm}, b"", Fault())
            return
        if layer.has_referrers and "/referrers/" in self.path:
            found = layer.referrers.get(self.path, [])
            index = {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": found}
            self._send(200, {"Content-Type": oci.INDEX}, json.dumps(index).encode(), fault)
            return
        status, headers, body = self._forward(data)
        if layer.has_referrers and method == "PUT" and "/manifests/" in self.path and status == 201:
            headers |= self._keep(data)
        self._send(status, headers, body, fault)

    do_GET = do_HEAD = do_POST = do_PUT = _any  # noqa: N815 (the names that http.server looks for)

    def _forward(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPSConnection(self.layer.registry.host, context=self.layer.context)
        headers = {key: self.headers[key] for key in _FORWARDED if key in self.headers}
        if not self.layer.wants_tokens and "Authorization" in self.headers:
            headers["Authorization"] = self.headers["Authorization"]
        if self.layer.wants_tokens:
            headers["Authorization"] = _BASIC
        connection.request(self.command, self.path, data, headers)
        response = connection.getresponse()
        body = response.read()
        found = {key: value for key, value in response.getheaders() if key not in ("Date", "Content-Length")}
        if self.command == "HEAD":
            found["Content-Length"] = response.getheader("Content-Length") or "0"
        if "Location" in found:
            found["Location"] = found["Location"].replace(
                f"https://{self.layer.registry.host}", f"http://{self.layer.host}"
            )
        connection.close()
        return response.status, found, body

    def _keep(self, data: bytes) -> dict[str, str]:
        document = json.loads(data)
        if "subject" not in document:
            return {}
        digest = document["subject"]["digest"]
        entry = {"mediaType": document["mediaType"], "digest": oci.digest_of(data), "size": len(data)}
        entry["artifactType"] = document.get("artifactType", "")
        path = f"{self.path.partition('/manifests/')[0]}/referrers/{digest}"
        self.layer.referrers.setdefault(path, []).append(entry)
        return {"OCI-Subject": digest}

    def _token(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = parse_qs(data or urlsplit(self.path).query)
        known = self.headers.get("Authorization") == _BASIC or form.get("refresh_token") == ["an identity token"]
        token = secrets.token_urlsafe()
        if known and form["service"] == ["here"]:
            self.layer.tokens.add(token)
        key = "access_token" if data else "token"
        self._send(200, {"Content-Type": "application/json"}, json.dumps({key: token}).encode(), Fault())

    def _send(self, status: int, headers: dict[str, str], body: bytes, fault: Fault) -> None:
        body = fault.body if fault.body is not None else body
        if fault.shorter:
            body = body[: -fault.shorter]
        if fault.flip is not None:
            body = body[: fault.flip] + bytes([body[fault.flip] ^ 1]) + body[fault.flip + 1 :]
        headers = {"Content-Length": str(len(body)), **headers, **fault.headers}
        self.send_response(fault.status or status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        body += bytes(fault.longer)
        if fault.cut is not None:
            body = body[: fault.cut]
            self.close_connection = True
        for start in range(0, len(body), 1 << 16):
            time.sleep(fault.pause)
            self.wfile.write(body[start : start + (1 << 16)])
        self.wfile.flush()
