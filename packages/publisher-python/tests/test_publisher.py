"""python3 -m unittest discover -s tests, with src in PYTHONPATH. HALCYON_URL, HALCYON_CLIENT_ID and HALCYON_CLIENT_SECRET are
those of a running Halcyon and of a trusted client."""

import json
import os
import random
import re
import threading
import time
import unittest
import urllib.parse
import urllib.request
from concurrent.futures import CancelledError, wait
from pathlib import Path

from halcyon_publisher import Clock, Publisher, PublishError
from halcyon_publisher._retry_after import retry_after_seconds

from gate import Gate

PACKAGE = Path(__file__).parent.parent
SERVER = os.environ.get("HALCYON_URL", "")
CREDENTIALS = {
    "client_id": os.environ.get("HALCYON_CLIENT_ID", ""),
    "client_secret": os.environ.get("HALCYON_CLIENT_SECRET", ""),
}
SEED = random.randrange(2**31)


class TestClock(Clock):
    """A clock on which waits between attempts pass at once."""

    def __init__(self):
        self.passed = 0.0
        self.waits = []

    def now(self):
        return time.monotonic() + self.passed

    def wait(self, seconds, stop):
        self.waits.append(seconds)
        self.passed += seconds

    def random(self):
        return 0.5


def call(method, path, body=None, token=None):
    headers = {"SERVICE-API-VERSION": "1", "Accept": "application/json"}
    if token:
        headers.update({"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    request = urllib.request.Request(SERVER + path, data=body, headers=headers, method=method)
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


def order(id, **more):
    return {"event": "transaction/created", "resource": {"id": id, **more}}


def outcome_of(future):
    try:
        return future.result(30)
    except (PublishError, CancelledError) as error:
        return error


def codes_of(futures):
    return [getattr(outcome_of(future), "code", None) for future in futures]


def until(satisfied):
    deadline = time.monotonic() + 60
    while not satisfied():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.005)


class RetryAfterTest(unittest.TestCase):
    def test_retry_after(self):
        vectors = json.loads((PACKAGE.parent / "retry-after.json").read_text(encoding="utf-8"))
        for header, seconds in vectors["seconds"].items():
            self.assertEqual(retry_after_seconds(header, vectors["now"]), seconds, header)


@unittest.skipUnless(SERVER, "HALCYON_URL is not set")
class PublisherTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        form = {"grant_type": "client_credentials", "scope": "platform", **CREDENTIALS}
        cls.token = json.loads(call("POST", "/token", urllib.parse.urlencode(form).encode()))["access_token"]

    def setUp(self):
        self.gate = Gate(SERVER)
        self.addCleanup(self.gate.close)
        self.store = self.new_store()

    def new_store(self):
        store = {"name": "S", "domain": "s.example", "email": "a@example.com", "time_zone": "UTC"}
        return json.loads(call("POST", "/stores", json.dumps(store).encode(), self.token))["id"]

    def open(self, **options):
        publisher = Publisher(**{"base_url": self.gate.url, **CREDENTIALS, **options})
        self.addCleanup(publisher.close, 5)
        return publisher

    def published(self, store=None):
        """Returns the events of the store in the order in which they were published."""
        found = []
        while True:
            path = f"/stores/{store or self.store}/events?resource_type=transaction&order=id&limit=100&offset={len(found)}"
            page = json.loads(call("GET", path, token=self.token))["_embedded"]["svc:events"]
            found += [(event["resource_id"], event["id"]) for event in page]
            if len(page) < 100:
                return found

    def ids(self, store=None):
        return [int(resource) for resource, _ in self.published(store)]

    def test_result_and_exact_numbers(self):
        text = '{"event":"transaction/created","resource":{"id":7,"total":12.50,"big":9007199254740993}}'
        with Publisher(base_url=self.gate.url, **CREDENTIALS) as publisher:
            event = publisher.publish(str(self.store), text).result()
        self.assertEqual((event["event"], event["resource_id"], event["resource_version"]), ("transaction/created", "7", 1))
        payload = call("GET", f"/stores/{self.store}/events/{event['id']}/payload", token=self.token)
        self.assertIn('"total":12.50,"big":9007199254740993', payload)

    def test_order(self):
        stores = [self.store, self.new_store()]
        with self.open(batch_events=10) as publisher:
            for id in range(95):
                for store in stores:
                    publisher.publish(store, order(id))
        for store in stores:
            self.assertEqual(self.ids(store), list(range(95)))
        self.assertEqual(self.gate.overlaps, 0)
        self.assertLess(len(self.gate.posts), 60)

    def test_refused_event_alone(self):
        wrong = {
            2: {"event": "transaction/made", "resource": {"id": 2}},
            3: {"event": "transaction/created", "resource": {}},
            5: order(5, text="x" * 300_000),
            7: '{"event":"transaction/created","resource":{"id":7,"total":1e999}}',
            8: {"event": "changelog/created", "resource": {"id": 8}},
            9: '{"event":',
            10: "[]",
            11: order(11, total=float("nan")),
        }
        publisher = self.open(delay_seconds=0.2)
        futures = [publisher.publish(self.store, wrong.get(id, order(id))) for id in range(14)]
        expected = [("refused" if id < 9 else "invalid_event") if id in wrong else None for id in range(14)]
        self.assertEqual(codes_of(futures), expected)
        faults = outcome_of(futures[3]).faults
        self.assertEqual([(fault.code, fault.field) for fault in faults], [("invalid_value", "resource.id")])
        self.assertEqual(self.ids(), [0, 1, 4, 6, 12, 13])

    def test_close_at_rejected(self):
        wrong = {3: {"event": "transaction/made", "resource": {"id": 3}}, 5: {"event": "transaction/made", "resource": {"id": 5}}}
        publisher = self.open(close_at_rejected=True, batch_events=10)
        futures = [publisher.publish(self.store, wrong.get(id, order(id))) for id in range(25)]
        self.assertEqual(codes_of(futures), [None] * 3 + ["refused"] + ["closed"] * 21)
        self.assertEqual(codes_of([publisher.publish(self.store, order(30))]), ["closed"])
        publisher.close()
        self.assertEqual(self.ids(), [0, 1, 2])

    def test_close_at_unavailable(self):
        publisher = self.open(close_at_rejected=True, batch_events=1, clock=TestClock(), deadline_seconds=10)
        publisher.publish(self.store, order(0)).result()
        self.gate.fate = lambda n: "busy"
        futures = [publisher.publish(self.store, order(1))]
        futures[0].add_done_callback(lambda future: self.gate.release())
        futures += [publisher.publish(self.store, order(id)) for id in (2, 3)]
        self.assertEqual(codes_of(futures), ["unavailable", "closed", "closed"])
        publisher.close()
        self.assertEqual(self.ids(), [0])

    def test_close_at_event_that_cannot_be_sent(self):
        for code, event in (("invalid_event", "[]"), ("invalid_event", '{"event":'), ("no_store", order(3))):
            store = self.new_store()
            publisher = self.open(close_at_rejected=True, batch_events=2, delay_seconds=60)
            futures = [publisher.publish(store, order(id)) for id in range(3)]
            futures.append(publisher.publish("../users" if code == "no_store" else store, event))
            futures += [publisher.publish(store, order(id)) for id in (4, 5)]
            self.assertEqual(codes_of(futures), [None] * 3 + [code, "closed", "closed"])
            publisher.close()
            self.assertEqual(self.ids(store), list(range(3)))

    def test_body_refused_as_a_whole(self):
        publisher = self.open(delay_seconds=0.2)
        futures = [publisher.publish(self.store, order(id, list=[0] * 60_000)) for id in range(5)]
        self.assertEqual(codes_of(futures), [None] * 5)
        self.assertEqual(self.ids(), list(range(5)))

    def test_capacity(self):
        for limit in ({"waiting_events": 10}, {"waiting_bytes": 500}):
            gate = self.gate
            store = self.new_store()
            publisher = self.open(**limit, batch_events=4, delay_seconds=0)
            most = [0, 0]
            futures = []
            for id in range(40):
                futures.append(publisher.publish(store, order(id)))
                most = [max(pair) for pair in zip(most, publisher.waiting)]
            self.assertEqual(codes_of(futures), [None] * 40)
            self.assertEqual(self.ids(store), list(range(40)))
            self.assertLessEqual(most[0], limit.get("waiting_events", 40))
            self.assertLessEqual(most[1], limit.get("waiting_bytes", 10_000))
            publisher.close()
            self.assertEqual(publisher.waiting, (0, 0))

    def test_publish_waits_for_capacity(self):
        self.gate.fate = lambda n: "held"
        publisher = self.open(waiting_events=5)
        futures = []
        producer = threading.Thread(target=lambda: futures.extend(publisher.publish(self.store, order(id)) for id in range(20)))
        producer.start()
        until(lambda: len(self.gate.posts) == 1 and publisher.waiting[0] == 5)
        self.assertEqual(len(futures), 5)
        self.gate.release()
        producer.join()
        self.assertEqual(codes_of(futures), [None] * 20)
        self.assertEqual(self.ids(), list(range(20)))

    def test_retry_after(self):
        self.gate.fate = lambda n: "busy" if n < 2 else None
        clock = TestClock()
        self.assertEqual(self.open(clock=clock).publish(self.store, order(1)).result()["resource_id"], "1")
        self.assertEqual([round(seconds, 3) for seconds in clock.waits], [2.15, 2.3])
        self.assertEqual(len({(post["key"], post["body"]) for post in self.gate.posts}), 1)

    def test_cut_response(self):
        self.gate.fate = lambda n: "cut" if n == 0 else None
        self.assertEqual(outcome_of(self.open(clock=TestClock()).publish(self.store, order(1)))["resource_id"], "1")
        self.assertEqual((len(self.gate.posts), len({post["key"] for post in self.gate.posts})), (2, 1))
        self.assertEqual(self.ids(), [1])

    def test_tokens(self):
        clock = TestClock()
        publisher = self.open(clock=clock)
        for id in (1, 2):
            publisher.publish(self.store, order(id)).result()
        self.assertEqual(self.gate.tokens, 1)
        clock.passed += 7_100
        publisher.publish(self.store, order(3)).result()
        self.assertEqual((self.gate.tokens, len(self.gate.posts)), (2, 3))

    def test_refused_token(self):
        publisher = self.open()
        publisher.publish(self.store, order(1)).result()
        revocation = {"token": self.gate.posts[0]["token"], **CREDENTIALS}
        call("POST", "/revoke", urllib.parse.urlencode(revocation).encode())
        publisher.publish(self.store, order(2)).result()
        self.assertEqual((self.gate.tokens, len(self.gate.posts)), (2, 3))

    def test_errors(self):
        def code_of(publisher, store=self.store):
            error = outcome_of(publisher.publish(store, order(1)))
            return error.code, error.may_be_published

        self.assertEqual(code_of(self.open(client_secret="wrong")), ("unauthorized", False))
        self.assertEqual(code_of(self.open(), 999_999), ("no_store", False))
        self.assertEqual(code_of(self.open(), "../users"), ("no_store", False))
        self.gate.fate = lambda n: "page"
        self.assertEqual(code_of(self.open()), ("unexpected", True))
        self.gate.fate = lambda n: "long"
        self.assertEqual(code_of(self.open()), ("unexpected", True))
        self.gate.fate = lambda n: "busy"
        self.assertEqual(code_of(self.open(clock=TestClock(), deadline_seconds=10)), ("unavailable", False))
        self.gate.fate = lambda n: "lost"
        self.assertEqual(code_of(self.open(clock=TestClock(), deadline_seconds=10)), ("unavailable", True))
        for options in ({"base_url": "shop"}, {"client_secret": ""}, {"batch_events": 1_001}, {"batch_bytes": 1.5}):
            [name] = options
            with self.assertRaisesRegex(ValueError, name):
                self.open(**options)

    def test_own_keys(self):
        def keyed(id):
            return {**order(id), "idempotency_key": f"order-{id}"}

        mixed = [keyed(1), keyed(1), order(2), keyed(3), {**order(4), "idempotency_key": None}]
        first = self.open(delay_seconds=0.2)
        results = [outcome_of(future) for future in [first.publish(self.store, event) for event in mixed]]
        self.assertEqual(self.ids(), [1, 2, 3, 4])
        self.assertEqual(results[0]["id"], results[1]["id"])
        second = self.open(delay_seconds=0.2)
        again = [second.publish(self.store, one) for one in (keyed(3), keyed(5), {**order(6), "idempotency_key": "order-1"})]
        self.assertEqual(codes_of(again), [None, None, "refused"])
        self.assertEqual(again[0].result()["id"], results[3]["id"])
        for post in self.gate.posts:
            for event in post["events"]:
                self.assertEqual(isinstance(event.get("idempotency_key"), str), post["key"] is None)

    def test_cancel_and_close(self):
        publisher = self.open(batch_events=1)
        self.gate.fate = lambda n: "held"
        futures = [publisher.publish(self.store, order(id)) for id in range(4)]
        until(lambda: len(self.gate.posts) == 1)
        self.assertEqual([future.cancel() for future in futures[:3]], [False, True, True])
        self.gate.release()
        publisher.close()
        self.assertEqual(self.ids(), [0, 3])
        self.assertEqual(publisher.waiting, (0, 0))
        self.assertEqual(codes_of([publisher.publish(self.store, order(9))]), ["closed"])

    def test_close_in_time(self):
        gate = Gate(SERVER)
        self.addCleanup(gate.close)
        gate.fate = lambda n: "held"
        publisher = self.open(base_url=gate.url, batch_events=2, delay_seconds=0)
        futures = [publisher.publish(self.store, order(id)) for id in range(5)]
        until(lambda: len(gate.posts) == 1)
        sent = len(gate.posts[0]["events"])
        publisher.close(0.05)
        errors = [outcome_of(future) for future in futures]
        self.assertEqual([(error.code, error.may_be_published) for error in errors],
                         [("closed", id < sent) for id in range(5)])

    def test_faults(self):
        """Whatever fails, each accepted event exists once and in order, and each refused one not at all."""
        random_ = random.Random(SEED)
        for _ in range(10):
            stores = [self.new_store(), self.new_store()]
            bad = set(random_.sample(range(24), 3))
            begin = len(self.gate.posts)
            fates = [random_.choice(("busy", "failed", "refused", "lost", None)) for _ in range(16)]
            self.gate.fate = lambda n: fates[n - begin] if n - begin < len(fates) else None
            publisher = self.open(clock=TestClock(), batch_events=random_.randint(1, 8), delay_seconds=0,
                                  waiting_events=random_.randint(1, 12), deadline_seconds=80_000)
            sent = {store: [] for store in stores}
            for id in range(24):
                event = {"event": "x/y" if id in bad else "transaction/created", "resource": {"id": id}}
                for store in stores:
                    sent[store].append(publisher.publish(store, event))
            publisher.close()
            for store in stores:
                expected = ["refused" if id in bad else None for id in range(24)]
                self.assertEqual(codes_of(sent[store]), expected, f"seed {SEED}")
                results = [future.result() for id, future in enumerate(sent[store]) if id not in bad]
                self.assertEqual(self.published(store), [(one["resource_id"], one["id"]) for one in results], f"seed {SEED}")
        self.assertEqual(self.gate.overlaps, 0)

    def test_readme(self):
        code = re.search(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.S)[1]
        results = []
        changes = [(self.store, {"event": name, "resource": {"id": id}})
                   for id, name in enumerate(("transaction/created", "transaction/made"))]
        exec(code, {"changes": changes, "on_settled": lambda future: results.append(codes_of([future])[0])})
        self.assertEqual(sorted(results, key=str), [None, "refused"])


if __name__ == "__main__":
    unittest.main()
