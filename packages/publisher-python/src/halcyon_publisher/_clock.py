import random
import threading
import time


class Clock:
    """Time and randomness of a publisher; tests pass their own."""

    def now(self) -> float:
        """Returns seconds that only increase."""
        return time.monotonic()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Returns after the time, or when the event is set."""
        stop.wait(seconds)

    def random(self) -> float:
        """Returns a number from 0 to below 1."""
        return random.random()
