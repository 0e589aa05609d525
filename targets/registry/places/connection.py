"""Requests to one registry: TLS, proxies, who the user is, redirects, and what is worth another try.

The transport is `requests`: python-dxf brings auth and paths, but reads responses whole into memory and has no limits,
no resuming, no referrers and no retries, so that all of its requests would be written here again.

Credentials go to the registry itself and to the token server that it names, over TLS or to this machine, nowhere else,
and into no message.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

from opsplice.common.errors import OpspliceError, printable
from opsplice.targets.registry.places import credentials, strict_json
from opsplice.targets.registry.places.place import InterruptedTransferError, NotFoundError
from opsplice.targets.registry.places.reference import Reference, is_loopback

if TYPE_CHECKING:
    from requests import Response

Answer = TypeVar("Answer")

CONNECTIONS = 8
ATTEMPTS = 5
FIRST_PAUSE = 0.3
LONGEST_PAUSE = 30.0
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 60.0

_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
# What is waited for at once: with more, a slow network would show no progress and heed no end.
_PIECE = 1 << 16
_MOST_CHALLENGES = 3
_CHALLENGE = re.compile(r'(?<![^\s,])(Basic|Bearer)\s+((?:[a-z_]++="[^"]*+"[\s,]*+)*+)', re.ASCII | re.IGNORECASE)
_PARAMETER = re.compile(r'([a-z_]++)="([^"]*+)"', re.ASCII | re.IGNORECASE)
_TOKEN = re.compile(r"[!-~]{1,65536}", re.ASCII)


def attempts(act: Callable[[], Answer]) -> Answer:
    """What `act` gives, which is asked again after a pause when a transfer was interrupted."""
    pause = FIRST_PAUSE
    for _ in range(ATTEMPTS - 1):
        try:
            return act()
        except InterruptedTransferError as error:
            time.sleep(min(LONGEST_PAUSE, max(error.pause, pause * random.uniform(0.5, 1.5))))
            pause *= 2
    return act()


def bounded(response: Response, largest: int, what: str) -> bytes:
    """A body that is read whole. Raises OpspliceError if it is larger."""
    data = bytearray()
    for chunk in streamed(response, what):
        data += chunk
        if len(data) > largest:
            raise OpspliceError(f"{what} is larger than {largest} bytes, the most that is read")
    return bytes(data)


def streamed(response: Response, what: str) -> Iterator[bytes]:
    """A body as it comes, never decompressed."""
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    with response:
        try:
            yield from response.raw.stream(_PIECE, decode_content=False)
        except (HTTPError, RequestException, OSError) as error:
            raise InterruptedTransferError(f"{what} was cut off: {_reason(error)}", hint="try again") from None


class Connection:
    """To the registry that a reference names. environ: where proxies, certificates and docker's folder are named."""

    def __init__(self, reference: Reference, environ: Mapping[str, str] = os.environ) -> None:
        self.host = reference.host
        self._plain = reference.plain
        self._environ = environ
        self.base = f"{'http' if reference.plain else 'https'}://{reference.host}/v2/{reference.repository}/"
        self._session = _session(is_loopback(reference.host))
        self._verify = _certificates(environ)
        self._authorization = ""
        self._lock = threading.Lock()
        self._reached = False

    def send(
        self,
        method: str,
        url: str,
        expected: tuple[int, ...],
        *,
        headers: Mapping[str, str] | None = None,
        body: Callable[[], Any] | None = None,
        seconds: float = SILENT_SECONDS,
    ) -> Response:
        """The response, whose status is an expected one; its body is still to be read, or to be closed.

        url: absolute, or relative to the repository. body: gives what is sent, from its beginning.
        Raises NotFoundError for 404, InterruptedTransferError for what is worth another try, else OpspliceError.
        """
        url = urljoin(self.base, url)
        for _ in range(_MOST_REDIRECTS):
            response = self._authorized(method, url, headers or {}, body, seconds)
            if response.status_code in expected:
                self._reached = True
                return response
            with response:
                if response.status_code not in _REDIRECTS or method not in ("GET", "HEAD"):
                    raise self._refusal(response)
                url = self.checked(urljoin(url, response.headers.get("Location", "")))
        raise OpspliceError(f"{self.host} redirects more than {_MOST_REDIRECTS} times")

    def is_own(self, url: str) -> bool:
        """Whether a URL is one of the registry's, so that it may see who the user is."""
        return urlsplit(url)[:2] == urlsplit(self.base)[:2]

    def _authorized(self, method: str, url: str, headers: Mapping[str, str], body: Any, seconds: float) -> Response:
        if not self.is_own(url):
            return self._once(method, url, headers, body, seconds)
        for _ in range(_MOST_CHALLENGES):
            shown = self._authorization
            response = self._once(method, url, self._with(headers, shown), body, seconds)
            if response.status_code != 401:
                return response
            with self._lock:
                # Another thread may have asked meanwhile, though for less than is wanted here.
                if self._authorization == shown:
                    self._authorization = self._answer(response.headers.get("WWW-Authenticate", ""))
            if self._authorization in ("", shown):
                return response
            response.close()
        return self._once(method, url, self._with(headers, self._authorization), body, seconds)

    def _once(self, method: str, url: str, headers: Mapping[str, str], body: Any, seconds: float) -> Response:
        from requests.exceptions import RequestException

        try:
            response: Response = self._session.request(
                method,
                url,
                headers=dict(headers),
                data=body() if body else None,
                stream=True,
                allow_redirects=False,
                timeout=(CONNECT_SECONDS, seconds),
                verify=self._verify,
            )
            return response
        except (RequestException, OSError) as error:
            raise self._unreachable(error, urlsplit(url).netloc) from None

    def _with(self, headers: Mapping[str, str], authorization: str) -> Mapping[str, str]:
        return {**headers, "Authorization": authorization} if authorization else headers

    def _answer(self, challenge: str) -> str:
        """What to say to `WWW-Authenticate`; "" for nothing."""
        found = {scheme.lower(): dict(_PARAMETER.findall(rest)) for scheme, rest in _CHALLENGE.findall(challenge)}
        if "bearer" in found:
            return self._bearer(found["bearer"])
        known = self._credentials(self.base) if "basic" in found else None
        return _basic(known) if known and known.user else ""

    def _credentials(self, url: str) -> credentials.Credentials | None:
        parts = urlsplit(url)
        if parts.scheme != "https" and not is_loopback(parts.netloc):
            return None
        return credentials.find(self.host, self._environ)

    def _bearer(self, challenge: Mapping[str, str]) -> str:
        realm = self.checked(urljoin(self.base, challenge.get("realm", "")))
        known = self._credentials(realm)
        fields = {key: challenge[key] for key in ("service", "scope") if key in challenge}
        if known and known.token:
            form = {"grant_type": "refresh_token", "refresh_token": known.token, "client_id": "opsplice", **fields}
            response = self._once("POST", realm, {}, lambda: form, SILENT_SECONDS)
        else:
            headers = {"Authorization": _basic(known)} if known else {}
            response = self._once("GET", _with_query(realm, fields), headers, None, SILENT_SECONDS)
        what = f"the token server {urlsplit(realm).netloc}"
        if response.status_code != 200:
            with response:
                raise self._refusal(response, what)
        answer = strict_json.parse(bounded(response, 1 << 20, f"the answer of {what}"), f"the answer of {what}")
        token = answer.text("token", "") or answer.text("access_token", "")
        if not _TOKEN.fullmatch(token):
            raise OpspliceError(f"{what} gives no token")
        return f"Bearer {token}"

    def checked(self, url: str) -> str:
        """A URL that the registry names, if it is no way out of TLS."""
        parts = urlsplit(url)
        if parts.scheme == "https" or (parts.scheme == "http" and (self._plain or is_loopback(parts.netloc))):
            return url
        raise OpspliceError(f"{self.host} sends to {parts.scheme}://{parts.netloc}, which is not protected by TLS")

    def _refusal(self, response: Response, who: str = "") -> OpspliceError:
        who, status = who or self.host, response.status_code
        said = _said(response)
        if status in (401, 403):
            plain = self._plain and not is_loopback(self.host)
            hint = "credentials are not sent without TLS" if plain else f"log in with: docker login {self.host}"
            return OpspliceError(f"{who} does not allow this{said}", hint=hint)
        if status == 404:
            return NotFoundError(f"{who} does not have this{said}")
        if status in _TRANSIENT:
            error = InterruptedTransferError(f"{who} cannot answer now (status {status}){said}", hint="try again later")
            with contextlib.suppress(ValueError):
                error.pause = float(response.headers.get("Retry-After", "0"))
            return error
        return OpspliceError(f"{who} answers with status {status}{said}")

    def _unreachable(self, error: Exception, host: str) -> OpspliceError:
        from requests.exceptions import ConnectionError as BrokenConnectionError
        from requests.exceptions import InvalidURL, ProxyError, SSLError

        reason = _reason(error)
        if isinstance(error, SSLError):
            if "WRONG_VERSION" in str(error) or "RECORD_LAYER" in str(error) or "record layer" in str(error):
                return OpspliceError(
                    f"{host} does not speak TLS",
                    hint="if it is to be trusted without TLS, write oci+http:// for oci://",
                )
            return OpspliceError(
                f"the certificate of {host} is not trusted: {reason}",
                hint="name the file of a certificate authority of your own in SSL_CERT_FILE",
            )
        if isinstance(error, InvalidURL | ProxyError) or not isinstance(error, BrokenConnectionError | OSError):
            return OpspliceError(f"cannot reach {host}: {reason}")
        if not self._reached and re.search("NewConnectionError|NameResolutionError", repr(error)):
            return OpspliceError(f"cannot reach {host}: {reason}", hint="is the name right, and is there a network?")
        return InterruptedTransferError(f"the connection to {host} broke: {reason}", hint="try again")


def _certificates(environ: Mapping[str, str]) -> str | bool:
    """The file or folder with the certificates to trust; True for those that come with requests."""
    # requests itself knows the second only.
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        if path := environ.get(name):
            if not os.path.exists(path):
                raise OpspliceError(f"there is no file {path}, which {name} names")
            return path
    return True


def _session(local: bool) -> Any:
    from http.cookiejar import DefaultCookiePolicy

    try:
        import requests
        from requests.adapters import HTTPAdapter
    except ImportError:
        raise OpspliceError(
            "packages of registries need the Python package requests", hint="pip install 'opsplice[registry]'"
        ) from None
    session = requests.Session()
    # A proxy is not to see what goes to this machine.
    session.trust_env = not local
    # Else requests looks into ~/.netrc, also for hosts that a registry redirects to.
    session.auth = lambda request: request
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers.update({"User-Agent": "opsplice", "Accept-Encoding": "identity"})
    for scheme in ("https://", "http://"):
        adapter = HTTPAdapter()
        adapter.init_poolmanager(CONNECTIONS, CONNECTIONS, blocksize=_PIECE)
        session.mount(scheme, adapter)
    return session


def _basic(known: credentials.Credentials) -> str:
    return f"Basic {base64.b64encode(f'{known.user}:{known.secret}'.encode()).decode()}"


def _with_query(url: str, fields: Mapping[str, str]) -> str:
    from requests.models import PreparedRequest

    request = PreparedRequest()
    request.prepare_url(url, list(fields.items()))
    return request.url or url


def _said(response: Response) -> str:
    """What a registry says of an error, fit for a terminal."""
    said = ""
    with contextlib.suppress(OpspliceError):
        body = bounded(response, 1 << 16, "")
        if response.headers.get("Content-Type", "text/plain").startswith("text/plain"):
            said = body.decode("ascii", "replace")
        else:
            errors = strict_json.parse(body, "").tables("errors", 100)
            said = errors[0].text("message", "") if errors else ""
    text = printable(said.strip())
    return f": {text[:200]}" if text else ""


def _reason(error: BaseException) -> str:
    """The innermost cause in words, without addresses of Python objects and queries of URLs."""
    while (inner := getattr(error, "reason", None) or (error.args[0] if error.args else None)) is not None:
        if not isinstance(inner, BaseException):
            break
        error = inner
    text = getattr(error, "strerror", None) or str(error.args[-1] if error.args else error)
    text = re.sub(r"<[^>]*>|^\w+\(host=[^)]*\): |\(_ssl\.c:\d+\)|\?\S*", "", text).strip(" :'")
    return text[:200] or type(error).__name__
