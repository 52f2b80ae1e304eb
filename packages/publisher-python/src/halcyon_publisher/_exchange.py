"""Sends one POST, and decides whether its failure is temporary."""

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Mapping
from urllib.parse import urlsplit

from ._retry_after import retry_after_seconds


@dataclass(frozen=True)
class Response:
    status: int
    text: str


@dataclass(frozen=True)
class Temporary:
    """The request can be repeated, after at least `wait_seconds`."""

    problem: str
    wait_seconds: float
    is_unknown: bool
    """The server may have acted on the request."""


Answer = Response | Temporary

# Every 5xx is temporary as well: requests with events have idempotency keys, so a repetition publishes nothing twice.
_TEMPORARY = frozenset((408, 425, 429))

# No response of Halcyon has more.
_RESPONSE_BYTES_MAX = 8 * 1024 * 1024

# The text instead of a longer response, whose beginning may be JSON.
_LONG_RESPONSE = "(a response of more than 8 MiB)"

# An older connection may be closed by the server at the moment at which a request is sent.
_IDLE_SECONDS = 4.0


class Exchange:
    """Has one connection for each thread."""

    def __init__(self, base_url: str, version_header: str, timeout_seconds: float) -> None:
        url = urlsplit(base_url)
        self._is_secure = url.scheme == "https"
        self._host = url.hostname or ""
        self._port = url.port
        self._path = url.path.rstrip("/")
        self._version_header = version_header
        self._timeout_seconds = timeout_seconds
        self._local = threading.local()

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            create = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
            connection = create(self._host, self._port, timeout=self._timeout_seconds)
            self._local.connection = connection
        elif time.monotonic() - self._local.used_at > _IDLE_SECONDS:
            connection.close()
        return connection

    def close(self) -> None:
        """Closes the connection of this thread."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        connection = self._connection()
        try:
            all_headers = {"Accept": "application/json", self._version_header: "1", **headers}
            connection.request("POST", self._path + path, body, all_headers)
            response = connection.getresponse()
            data = response.read(_RESPONSE_BYTES_MAX + 1)
            is_long = len(data) > _RESPONSE_BYTES_MAX
            # `read` with a size does not raise it.
            if response.length and not is_long:
                raise http.client.IncompleteRead(data, response.length)
            text = _LONG_RESPONSE if is_long else data.decode(errors="replace")
            if not response.isclosed():
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return Temporary(f"no response: {error or type(error).__name__}", 0.0, True)
        finally:
            self._local.used_at = time.monotonic()
        status = response.status
        if status < 500 and status not in _TEMPORARY:
            return Response(status, text)
        # A 429 is sent before the body is read.
        wait_seconds = retry_after_seconds(response.headers.get("Retry-After"), time.time())
        return Temporary(f"the server responds with {status}", wait_seconds, status != 429)


def object_in(text: str) -> dict[str, Any]:
    """Returns the JSON object of a response; an empty one for another text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
