import json
import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from ._decrypt import decrypted
from ._error import WebhookError, WebhookErrorCode
from ._signature import hex_signatures, is_public, is_signed, is_signed_by, standard_key, standard_signatures

_TOLERANCE_SECONDS = 300
_ENCRYPTED_TYPE = "application/jose"
# The header Webhook-Test says the same, but no signature covers it.
_TEST_PREFIX = "msg_test_"
# Not \d, which has the digits of every script.
_WHOLE = re.compile(r"[0-9]{1,16}")


class HeadersLike(Protocol):
    """A mapping of names to values, such as a dict or the headers of Flask, Django and Starlette. A value may be a list."""

    def items(self) -> Iterable[tuple[str, str | Sequence[str]]]: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    A verified delivery. The signature covers `id`, `timestamp` and `body`. The other fields come from headers, which are protected
    only by TLS.
    """

    id: str
    """The same in every attempt of one event at one webhook: drop what you have seen."""
    event: str
    """`<resource>/<action>`, such as `transaction/created`."""
    timestamp: datetime
    """When this attempt was sent, in UTC."""
    store_id: int
    store_domain: str
    attempt: int
    """1 for the first."""
    resource_version: int
    """Rises with each version of the resource: a lower one than you have is old."""
    is_refeed: bool
    """Whether it was sent again by hand."""
    is_test: bool
    """Whether it is a test delivery: its event is a sample, which never happened. Part of the signed `id`."""
    content_type: str
    """Of `body`; after decryption the type of the decrypted body."""
    body: bytes

    def json(self) -> Any:
        """Returns the parsed body. Raises ValueError if it is not JSON."""
        return json.loads(self.body)


class _Headers:
    """Names are compared in lower case, because frameworks differ in what they hand on."""

    def __init__(self, headers: HeadersLike) -> None:
        self._values = {name.lower(): value for name, value in headers.items()}

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return value if value is None or isinstance(value, str) else ", ".join(value)

    def required(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise WebhookError("missing_header", f"The header {name} is missing.")
        return value

    def number(self, name: str) -> int:
        value = self.required(name)
        if not _WHOLE.fullmatch(value):
            raise WebhookError("bad_header", f"The header {name} is not a whole number.")
        return int(value)


def _bytes_of(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    raise WebhookError("not_raw", "The body was parsed already: pass the bytes as they arrived.")


def _keys_of(keys: Iterable[str | None]) -> list[str]:
    if isinstance(keys, str):
        raise TypeError("keys is a list: write keys=[key]")
    given = [key for key in keys if key]
    if not given:
        raise WebhookError("no_key", "No key was given: is the encryption_key set?")
    return given


def _check_age(sent_at: int, now: float, tolerance_seconds: float) -> None:
    age = math.floor(now) - sent_at
    if abs(age) <= tolerance_seconds:
        return
    code: WebhookErrorCode = "too_new" if age < 0 else "too_old"
    when = "in the future" if age < 0 else "ago"
    raise WebhookError(code, f"It was sent {abs(age)} seconds {when}. Is the clock right here?")


def verify_delivery(
    *,
    headers: HeadersLike,
    body: bytes | bytearray | memoryview | str,
    keys: Iterable[str | None],
    header_prefix: str = "Service",
    tolerance_seconds: float = _TOLERANCE_SECONDS,
    now: Callable[[], float] = time.time,
) -> Delivery:
    """
    Verifies the signatures and the age, and decrypts. Raises `WebhookError` if something is wrong with the delivery, or with what it
    is verified with: its `status` is the status of your response.

    `body` is the body as it arrived, before anything parsed it. `keys` has the `encryption_key` of the webhook, or its `public_key` if
    that is an Ed25519 key; during a rotation the old and the new one. None and "" are ignored. `header_prefix` is the operator's `WEBHOOK_HEADER_PREFIX`. `tolerance_seconds` is
    the maximum difference between `webhook-timestamp` and `now()`, in the past and in the future. `now` returns seconds since 1970.
    """
    sent, given = _bytes_of(body), _keys_of(keys)
    read = _Headers(headers)

    def named(name: str) -> str:
        return f"{header_prefix}-{name}"

    id, timestamp = read.required("webhook-id"), read.required("webhook-timestamp")
    signatures = read.required("webhook-signature")
    secrets = [key for key in given if not is_public(key)]
    following = read.text(named("Webhook-Signature-Next"))
    # An Ed25519 key makes no such signature: neither as the only key, nor as the old one of a rotation.
    is_needed = len(secrets) == len(given) and following is None
    first = (read.required if is_needed else read.text)(named("Webhook-Signature"))
    hexes = [first, following]
    hex = [signature for header in hexes for signature in hex_signatures(header)]
    signed = f"{id}.{timestamp}.".encode() + sent
    is_genuine = is_signed_by(signed, given, signatures) or (
        is_signed(signed, map(standard_key, secrets), standard_signatures(signatures))
        and is_signed(sent, (key.encode() for key in secrets), hex)
    )
    if not is_genuine:
        raise WebhookError("bad_signature", "No key fits. Is it the key of this webhook, and is the body raw?")
    # After the signature, because before it the time is what anybody writes there.
    _check_age(read.number("webhook-timestamp"), now(), tolerance_seconds)

    content_type, content = read.text("content-type") or "", sent
    if content_type.split(";", 1)[0].strip().lower() == _ENCRYPTED_TYPE:
        content_type, content = decrypted(sent, secrets)
    return Delivery(
        id=id,
        event=read.required(named("Webhook-Event")),
        timestamp=datetime.fromtimestamp(int(timestamp), timezone.utc),
        store_id=read.number(named("Store-ID")),
        store_domain=read.required(named("Store-Domain")),
        attempt=read.number(named("Webhook-Attempt")),
        resource_version=read.number(named("Webhook-Resource-Version")),
        is_refeed=read.required(named("Webhook-Refeed")) == "true",
        is_test=id.startswith(_TEST_PREFIX),
        content_type=content_type,
        body=content,
    )
