"""python3 -m unittest discover -s tests, with src in PYTHONPATH. The vectors are those of @halcyon/receiver too."""

import base64
import hmac
import json
import os
import re
import time
import unittest
from pathlib import Path

from halcyon_receiver import Delivery, WebhookError, handshake_headers, remember_ids, verify_delivery
from halcyon_receiver._signature import standard_key

PACKAGE = Path(__file__).parent.parent
VECTORS = json.loads((PACKAGE.parent / "vectors.json").read_text(encoding="utf-8"))
HANDSHAKES = json.loads((PACKAGE.parent / "handshake.json").read_text(encoding="utf-8"))
NAMES = {"storeId": "store_id", "storeDomain": "store_domain", "resourceVersion": "resource_version",
         "isRefeed": "is_refeed", "isTest": "is_test", "contentType": "content_type"}


def arrival_of(vector):
    return {
        "headers": vector["headers"],
        "body": base64.b64decode(vector["bodyBase64"]),
        "keys": vector["keys"],
        "header_prefix": vector["headerPrefix"],
        "now": lambda: vector["now"],
    }


def refused(arrival):
    try:
        verify_delivery(**arrival)
    except WebhookError as error:
        return error
    raise AssertionError("accepted")


def sent_now(vector):
    """The delivery of the vector as if it were sent now."""
    arrival = arrival_of(vector)
    [key] = arrival["keys"]
    timestamp = str(int(time.time()))
    signed = f"{arrival['headers']['webhook-id']}.{timestamp}.".encode() + arrival["body"]
    signature = base64.b64encode(hmac.digest(standard_key(key), signed, "sha256")).decode()
    changed = {"webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}
    return {**arrival["headers"], **changed}, arrival["body"], key


class Handshake(unittest.TestCase):
    def test_a_service_gets_permission_only_if_it_is_the_allowed_one(self):
        for vector in HANDSHAKES:
            with self.subTest(vector["name"]):
                allowed = vector["allowedOrigin"]
                permission = {"Allow": "POST", "WebHook-Allowed-Origin": allowed, "WebHook-Allowed-Rate": "*"}
                answer = handshake_headers(headers=vector["headers"], allowed_origin=allowed)
                self.assertEqual(answer, permission if vector["isAllowed"] else None)


class Receiver(unittest.TestCase):
    def test_vectors(self):
        self.assertGreater(len(VECTORS), 60)
        for vector in VECTORS:
            with self.subTest(vector["name"]):
                if "rejected" in vector:
                    error = refused(arrival_of(vector))
                    self.assertEqual(error.code, vector["rejected"])
                    self.assertEqual(error.status, 500 if error.code == "no_key" else 401)
                    continue
                expected = {NAMES.get(name, name): value for name, value in vector["accepted"].items()}
                body, timestamp = base64.b64decode(expected.pop("bodyBase64")), expected.pop("timestamp")
                delivery = verify_delivery(**arrival_of(vector))
                self.assertEqual(delivery.timestamp.timestamp(), timestamp)
                self.assertEqual(delivery.body, body)
                rest = [name for name in Delivery.__slots__ if name not in ("body", "timestamp")]
                self.assertEqual({name: getattr(delivery, name) for name in rest}, expected)

    def test_forms_of_the_body(self):
        arrival = arrival_of(VECTORS[0])
        raw = arrival["body"]
        for body in (raw, bytearray(raw), memoryview(raw), raw.decode()):
            self.assertEqual(verify_delivery(**{**arrival, "body": body}).json(), {"id": 70012, "name": "Zoë"})
        error = refused({**arrival, "body": json.loads(raw)})
        self.assertEqual((error.code, error.status), ("not_raw", 500))

    def test_keys(self):
        arrival = arrival_of(VECTORS[0])
        [key] = arrival["keys"]
        verify_delivery(**{**arrival, "keys": [None, "", key]})
        with self.assertRaisesRegex(TypeError, "keys=\\[key\\]"):
            verify_delivery(**{**arrival, "keys": key})

    def test_tolerance(self):
        arrival = arrival_of(VECTORS[0])
        late = {**arrival, "now": lambda: arrival["now"]() + 11}
        self.assertEqual(refused({**late, "tolerance_seconds": 10}).code, "too_old")
        self.assertEqual(refused({**arrival, "tolerance_seconds": float("nan")}).code, "too_old")
        verify_delivery(**{**late, "tolerance_seconds": 11})

    def test_messages_have_no_secrets(self):
        for vector in VECTORS:
            if "rejected" in vector:
                message = str(refused(arrival_of(vector)))
                for secret in filter(None, vector["keys"]):
                    self.assertNotIn(secret, message)

    def test_duplicates(self):
        is_new = remember_ids(2)
        self.assertEqual([is_new(id) for id in "abacac"], [True, True, False, True, True, False])

    def test_readme(self):
        code = re.search(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.S)[1]
        queued = []
        headers, body, key = sent_now(VECTORS[0])
        os.environ["WEBHOOK_KEY"] = key
        scope = {"queue": type("Queue", (), {"add": lambda *given: queued.append(given)}), "print": lambda *_: None}
        exec(code, scope)
        self.assertEqual([scope["hook"](headers, text) for text in (body, body, body + b" ")], [204, 204, 401])
        self.assertEqual(queued, [("transaction/created", {"id": 70012, "name": "Zoë"})])


if __name__ == "__main__":
    unittest.main()
