import threading
from dataclasses import dataclass
from urllib.parse import urlencode

from ._clock import Clock
from ._error import Fault, PublishErrorCode
from ._exchange import Exchange, Temporary, object_in

# A token is renewed when a tenth of its lifetime is left.
_RENEWED_AFTER = 0.9


@dataclass(frozen=True)
class Token:
    value: str


@dataclass(frozen=True)
class Refused:
    code: PublishErrorCode
    status: int
    message: str
    faults: tuple[Fault, ...]


class Tokens:
    """Gets tokens with the scope `platform` by client credentials (RFC 6749 §4.4); threads share one request."""

    def __init__(self, exchange: Exchange, clock: Clock, client_id: str, client_secret: str) -> None:
        self._exchange = exchange
        self._clock = clock
        self._client_id = client_id
        self._client_secret = client_secret
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    def current(self) -> Token | Refused | Temporary:
        """Returns the token; requests a new one before the old one expires."""
        with self._lock:
            if self._token is not None and self._clock.now() < self._renew_at:
                return self._token
            return self._request()

    def forget(self, token: Token) -> None:
        """Removes a token that the server does not accept."""
        with self._lock:
            if self._token is token:
                self._token = None

    def _request(self) -> Token | Refused | Temporary:
        form = {
            "grant_type": "client_credentials",
            "scope": "platform",
            "client_id": self._client_id,
            "client_secret": self._client_secret,
        }
        requested_at = self._clock.now()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self._exchange.post("/token", headers, urlencode(form).encode())
        if isinstance(answer, Temporary):
            return Temporary(f"no token: {answer.problem}", answer.wait_seconds, False)
        body = object_in(answer.text)
        value, seconds = body.get("access_token"), body.get("expires_in")
        if answer.status != 200 or not isinstance(value, str):
            reasons = [one for one in (body.get("error"), body.get("error_description")) if isinstance(one, str)]
            message = (
                f"No token for the client {self._client_id}: {answer.status} {': '.join(reasons)}; "
                "check base_url, client_id and client_secret, and that the client is trusted"
            )
            code: PublishErrorCode = "unauthorized" if answer.status in (400, 401, 403) else "unexpected"
            faults = (Fault(reasons[0], reasons[-1], ""),) if reasons else ()
            return Refused(code, answer.status, message, faults)
        life = seconds if isinstance(seconds, (int, float)) else float("inf")
        self._token, self._renew_at = Token(value), requested_at + life * _RENEWED_AFTER
        return self._token
