"""Events that wait to be sent: in order for each store, in batches, up to a total number and size."""

import threading
from collections import deque
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

from ._clock import Clock
from ._error import PublishError


@dataclass(eq=False)
class QueuedEvent:
    store_id: str
    body: bytes
    key: str | None
    future: "Future[Any]"
    queued_at: float = 0.0

    @property
    def size(self) -> int:
        """The bytes, with the comma of an array."""
        return len(self.body) + 1

    def resolve(self, result: Any) -> None:
        try:
            self.future.set_result(result)
        except InvalidStateError:
            pass  # The publisher was closed in the meantime.

    def reject(self, error: Exception) -> None:
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            pass


@dataclass(frozen=True)
class QueueLimits:
    batch_events: int
    batch_bytes: int
    delay_seconds: float
    waiting_events: int
    waiting_bytes: int
    concurrency: int


@dataclass(eq=False)
class _Lane:
    store_id: str
    waiting: deque[QueuedEvent] = field(default_factory=deque)
    bytes: int = 0
    is_sending: bool = False


def _closed() -> PublishError:
    return PublishError("closed", "The publisher is closed")


class Queue:
    """Threads take batches of different stores. All state is guarded by one lock."""

    def __init__(
        self,
        limits: QueueLimits,
        clock: Clock,
        send: Callable[[Sequence[QueuedEvent]], None],
        end_thread: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._send = send
        self._end_thread = end_thread
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        self._capacity = threading.Condition(lock)
        self._end = threading.Condition(lock)
        self._lanes: dict[str, _Lane] = {}
        self._due: dict[_Lane, None] = {}
        """Lanes with a batch to send, the longest waiting first."""
        self._delayed: dict[_Lane, float] = {}
        """When lanes become due, in this order because the delay is the same for all."""
        self._in_flight: set[QueuedEvent] = set()
        self._events = 0
        self._bytes = 0
        self._tickets: deque[object] = deque()
        """The callers of `add` that wait for capacity, in order."""
        self._threads: list[threading.Thread] = []
        self._is_closing = False
        self._is_closed = False
        self._is_ended = False

    @property
    def size(self) -> tuple[int, int]:
        """The events and bytes that are queued or being sent."""
        with self._work:
            return self._events, self._bytes

    def add(self, event: QueuedEvent) -> None:
        """Waits for capacity in the order of the calls; an event larger than the limit is admitted alone."""
        with self._work:
            if self._is_closing:
                raise _closed()
            ticket = object()
            self._tickets.append(ticket)
            try:
                while self._tickets[0] is not ticket or not self._fits(event):
                    self._capacity.wait()
                    if self._is_closed or self._is_ended:
                        raise _closed()
            finally:
                self._tickets.remove(ticket)
                self._capacity.notify_all()
            self._admit(event)

    def close(self, timeout: float | None) -> None:
        """Sends from now on without delay, and waits until every event is settled; rejects the others after the time."""
        with self._work:
            self._finish()
            if not self._end.wait_for(self._is_empty, timeout):
                self._reject_all()
            self._is_closed = True
            self._work.notify_all()
            self._capacity.notify_all()
            threads = self._threads if self._is_empty() else []
        for thread in threads:
            thread.join()

    def finish(self) -> None:
        """Accepts no further events, and sends the others without delay."""
        with self._work:
            self._finish()

    def end(self) -> None:
        """Rejects all events that are not being sent; those that are being sent are settled."""
        with self._work:
            self._is_closing = True
            self._is_ended = True
            self._reject_waiting()
            self._capacity.notify_all()
            self._end.notify_all()

    def _finish(self) -> None:
        self._is_closing = True
        for lane in list(self._delayed):
            self._make_due(lane)

    def _is_empty(self) -> bool:
        return self._events == 0 and not self._tickets

    def _reject_waiting(self) -> None:
        for lane in self._lanes.values():
            for event in lane.waiting:
                if event.future.set_running_or_notify_cancel():
                    event.reject(_closed())
                self._release(event)
            lane.waiting.clear()
            lane.bytes = 0

    def _reject_all(self) -> None:
        self._reject_waiting()
        for event in self._in_flight:
            event.reject(PublishError("closed", "The publisher was closed", may_be_published=True))

    def _fits(self, event: QueuedEvent) -> bool:
        limits = self._limits
        return self._events == 0 or (
            self._events < limits.waiting_events and self._bytes + event.size <= limits.waiting_bytes
        )

    def _admit(self, event: QueuedEvent) -> None:
        self._events += 1
        self._bytes += event.size
        event.queued_at = self._clock.now()
        lane = self._lanes.setdefault(event.store_id, _Lane(event.store_id))
        lane.waiting.append(event)
        lane.bytes += event.size
        if lane.is_sending or lane in self._due:
            return
        limits = self._limits
        if self._is_closing or len(lane.waiting) >= limits.batch_events or lane.bytes >= limits.batch_bytes:
            self._make_due(lane)
        elif lane not in self._delayed:
            self._delayed[lane] = self._clock.now() + limits.delay_seconds
            self._wake()

    def _make_due(self, lane: _Lane) -> None:
        self._delayed.pop(lane, None)
        self._due[lane] = None
        self._wake()

    def _wake(self) -> None:
        """Starts a thread while there are fewer than the limit and than lanes."""
        if len(self._threads) < min(self._limits.concurrency, len(self._lanes)):
            thread = threading.Thread(target=self._run, name="halcyon-publisher", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.notify()

    def _release(self, event: QueuedEvent) -> None:
        self._events -= 1
        self._bytes -= event.size

    def _next_lane(self) -> _Lane | None:
        """Waits for a lane that is due; returns None when the publisher is closed."""
        while True:
            now = self._clock.now()
            for lane, due_at in list(self._delayed.items()):
                if due_at > now:
                    break
                del self._delayed[lane]
                self._due[lane] = None
            if self._due:
                lane = next(iter(self._due))
                del self._due[lane]
                return lane
            if self._is_closed:
                return None
            first = next(iter(self._delayed.values()), None)
            self._work.wait(None if first is None else max(0.0, first - now))

    def _take_batch(self, lane: _Lane) -> list[QueuedEvent]:
        """Takes the events of the next request. All of them have a key of their own, or none has; a key occurs once."""
        batch: list[QueuedEvent] = []
        keys: set[str] = set()
        size = 0
        while lane.waiting:
            event = lane.waiting[0]
            if batch:
                is_full = len(batch) == self._limits.batch_events or size + event.size > self._limits.batch_bytes
                is_mixed = (event.key is None) != (batch[0].key is None)
                if is_full or is_mixed or event.key in keys:
                    break
            lane.waiting.popleft()
            lane.bytes -= event.size
            if not event.future.set_running_or_notify_cancel():
                self._release(event)
                continue
            batch.append(event)
            size += event.size
            if event.key is not None:
                keys.add(event.key)
        return batch

    def _run(self) -> None:
        while True:
            with self._work:
                lane = self._next_lane()
                if lane is None:
                    break
                lane.is_sending = True
                batch = self._take_batch(lane)
                self._in_flight.update(batch)
                if self._due or self._delayed:
                    self._wake()
            if batch:
                self._send(batch)
            with self._work:
                self._in_flight.difference_update(batch)
                lane.is_sending = False
                for event in batch:
                    self._release(event)
                # Without delay: the events have waited for the request before them.
                if lane.waiting:
                    self._make_due(lane)
                else:
                    self._lanes.pop(lane.store_id, None)
                self._capacity.notify_all()
                self._end.notify_all()
        self._end_thread()
