from collections.abc import Callable
from threading import Lock

_REMEMBERED = 10_000


def remember_ids(limit: int = _REMEMBERED) -> Callable[[str], bool]:
    """
    Returns a function whose result is true if an id is new among the last `limit` ids. It is the memory of one process, and may be
    called by several threads. If an event must not be processed twice even after a restart, store the ids in your database.
    """
    seen: dict[str, None] = {}
    lock = Lock()

    def is_new(id: str) -> bool:
        with lock:
            if id in seen:
                return False
            seen[id] = None
            if len(seen) > limit:
                del seen[next(iter(seen))]
            return True

    return is_new
