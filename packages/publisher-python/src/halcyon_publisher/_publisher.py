import re
import threading
from concurrent.futures import Future
from types import TracebackType
from urllib.parse import urlsplit

from ._clock import Clock
from ._error import PublishError
from ._event import EventInput, serialize
from ._exchange import Exchange
from ._queue import Queue, QueuedEvent, QueueLimits
from ._request import Requests
from ._send import PublishedEvent, send_batch
from ._tokens import Tokens

_MIB = 1024 * 1024
_STORE_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


def _check_range(name: str, value: float, least: float, most: float) -> None:
    is_whole = isinstance(value, int) or name.endswith("_seconds")
    if not is_whole or not least <= value <= most:
        kind = "number" if name.endswith("_seconds") else "whole number"
        raise ValueError(f"{name} must be a {kind} from {least} to {most}")


def _check_base_url(base_url: str) -> None:
    url = urlsplit(base_url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("base_url must be the http or https address of the server")


class Publisher:
    """Publishes the events of all stores of a platform. Use it as a context manager, or call `close`.

    `batch_events`, `batch_bytes`: limits of a request; a larger event is sent alone.
    `delay_seconds`: how long the first event of a store waits for others of the same request.
    `waiting_events`, `waiting_bytes`: limits of the events that are queued or being sent.
    `concurrency`: the maximum number of requests at once, each of another store.
    `deadline_seconds`: how long the publisher tries to publish an event. Idempotency keys are kept for 24 hours.
    `request_timeout_seconds`: the time limit of connecting, and of each pause of a response.
    `close_at_rejected`: closes the publisher at the first event that is not published, except a cancelled one: the events of its
    store before it are published, those after it are rejected with `closed`.
    `version_header`: the header with the version of the API, if the operator has renamed it.
    `clock`: replaces time and randomness in tests.
    """

    def __init__(
        self,
        *,
        base_url: str,
        client_id: str,
        client_secret: str,
        batch_events: int = 500,
        batch_bytes: int = 2 * _MIB,
        delay_seconds: float = 0.005,
        waiting_events: int = 10_000,
        waiting_bytes: int = 64 * _MIB,
        concurrency: int = 8,
        deadline_seconds: float = 300.0,
        request_timeout_seconds: float = 30.0,
        close_at_rejected: bool = False,
        version_header: str = "SERVICE-API-VERSION",
        clock: Clock | None = None,
    ) -> None:
        _check_base_url(base_url)
        for name, text in (("client_id", client_id), ("client_secret", client_secret)):
            if not isinstance(text, str) or text == "":
                raise ValueError(f"{name} is missing")
        _check_range("batch_events", batch_events, 1, 1_000)
        _check_range("batch_bytes", batch_bytes, 1, 16 * _MIB)
        _check_range("delay_seconds", delay_seconds, 0, 60)
        _check_range("waiting_events", waiting_events, 1, 10_000_000)
        _check_range("waiting_bytes", waiting_bytes, 1, 64 * 1024 * _MIB)
        _check_range("concurrency", concurrency, 1, 1_000)
        _check_range("deadline_seconds", deadline_seconds, 0.001, 23 * 3600)
        _check_range("request_timeout_seconds", request_timeout_seconds, 0.001, 3600)
        clock = clock or Clock()
        self._stop = threading.Event()
        exchange = Exchange(base_url, version_header, request_timeout_seconds)
        tokens = Tokens(exchange, clock, client_id, client_secret)
        requests = Requests(exchange, tokens, clock, deadline_seconds=deadline_seconds, stop=self._stop)
        limits = QueueLimits(batch_events, batch_bytes, delay_seconds, waiting_events, waiting_bytes, concurrency)
        self._close_at_rejected = close_at_rejected
        on_rejected = (lambda: self._queue.end()) if close_at_rejected else None
        self._queue = Queue(limits, clock, lambda batch: send_batch(batch, requests.send, on_rejected), exchange.close)

    def publish(self, store_id: int | str, event: EventInput) -> "Future[PublishedEvent]":
        """Waits while the queue is full, and returns a future of the published event.

        The future has the result when the server has committed the event, and a `PublishError` if this event is not
        published. Events of a store are published in the order of the calls. A cancelled future removes the event, unless it
        is being sent already.
        """
        future: Future[PublishedEvent] = Future()
        try:
            if _STORE_ID.fullmatch(str(store_id)) is None:
                raise PublishError("no_store", f"The id of a store is a positive whole number: {store_id}")
            body, key = serialize(event)
            self._queue.add(QueuedEvent(str(store_id), body, key, future))
        except PublishError as error:
            if self._close_at_rejected:
                self._queue.finish()
            future.set_exception(error)
        return future

    @property
    def waiting(self) -> tuple[int, int]:
        """The number and bytes of events that are queued or being sent."""
        return self._queue.size

    def close(self, timeout: float | None = None) -> None:
        """Sends all events without delay, and returns when each is published or rejected. Events that remain after `timeout`
        seconds are rejected. Later calls of `publish` return a future with a `PublishError`."""
        try:
            self._queue.close(timeout)
        finally:
            self._stop.set()

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
