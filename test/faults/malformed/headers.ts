/** Headers that are empty, too long or malformed. The rest of the request is valid. */
import * as fc from 'fast-check';
import type { Header, Fixture } from './fixture.ts';
import { listed } from './text-list.ts';
import { messageOf, type Message } from './message.ts';

/** The bytes that a header may contain (RFC 9110 §5.5): visible characters, blanks, and bytes above. */
const characters = fc.constantFrom(
  ...Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).filter((at) =>
    /[\t\x20-\x7e\x80-\xff]/.test(at),
  ),
);
const text = (maxLength: number) => fc.string({ unit: characters, maxLength }).map((value) => value.trim());
const long = fc.constantFrom('a'.repeat(8_000), 'a,'.repeat(4_000), '"a", '.repeat(2_000), ';q=1'.repeat(2_000));

function accepted(mediaTypes: readonly string[]) {
  const range = fc.constantFrom(
    ...mediaTypes,
    ...listed('*/* ¦ application/* ¦ text/* ¦ * ¦ a/b ¦ / ¦ */json ¦ application/'),
  );
  const weight = fc.constantFrom(
    ...listed(' ¦  ¦ ;q=0 ¦ ;q=1 ¦ ;q=0.333 ¦ ;q=1.0001 ¦ ;q=-1 ¦ ;q=NaN ¦ ;q=1e9 ¦ ;q= ¦ ;q ¦ ; q = 0.5 ¦ ;q="1"'),
  );
  const other = fc.constantFrom(...listed(' ¦ ;charset=utf-8 ¦ ;level=1 ¦ ;; ¦ ;a="b,c" ¦ ;profile=<x>'));
  return fc
    .array(fc.tuple(range, other, weight), { maxLength: 6 })
    .map((list) => list.map((part) => part.join('')).join(', '));
}

/** None that begins like a valid version: that one would be accepted. */
const TAGS = listed(
  ' ¦ * ¦ "" ¦ "a" ¦ W/"a" ¦ w/"a" ¦ "a ¦ a" ¦ "a""b" ¦ *, "a" ¦ "-1-x" ¦ "\xff" ¦ , ¦ "1- ¦ W/ ¦ "0-0", "x-1"',
);
const ORIGINS = listed('null ¦  ¦ http:// ¦ https://elsewhere.example ¦ // ¦ file:// ¦ http://[ ¦ \xff');
const VALUES: Readonly<Record<string, readonly string[]>> = {
  'If-Match': TAGS,
  'If-None-Match': TAGS,
  'Idempotency-Key': [
    ...listed(` ¦ a ¦ a b ¦ "quoted" ¦ \xe9 ¦ a,b ¦ {} ¦ ' or 1=1`),
    'a'.repeat(255),
    'a'.repeat(256),
  ],
  Authorization: listed(
    ' ¦ Bearer ¦ Bearer a b ¦ Bearer \xff ¦ bearer x ¦ Basic ¦ Basic %%% ¦ Basic Og== ¦ Digest a=b ¦ Bearer Bearer x ¦ x',
  ),
  'SERVICE-API-VERSION': listed(
    ' ¦ 0 ¦ 2 ¦ 1.0 ¦ 01 ¦ 1,1 ¦ 1, 1 ¦ one ¦ 1 1 ¦ \xb9 ¦ -1 ¦ 1e0 ¦ 99999999999999999999',
  ),
  'Content-Type': listed(' ¦ x ¦ application/json; ¦ a/b;c ¦ ; ¦ / ¦ application/json;charset=\xff'),
  Origin: ORIGINS,
  Referer: ORIGINS,
  Cookie: listed(' ¦ = ¦ ;;; ¦ a=% ¦ session=x ¦ a=b; a=c ¦ \xff=\xff ¦ __proto__=x ¦ session="%zz"'),
  'Access-Control-Request-Method': listed(' ¦ GET ¦ x ¦ * ¦ GET, POST'),
  'Sec-Fetch-Site': listed('same-origin ¦ cross-site ¦ none ¦ x ¦ '),
  'If-Modified-Since': listed(' ¦ yesterday ¦ Thu, 01 Jan 1970 00:00:00 GMT'),
  Range: listed('bytes=0-0 ¦ bytes=- ¦ x'),
  Expect: ['100-continue'],
  'X-Forwarded-For': listed(' ¦ :: ¦ 999.1.1.1 ¦ ,,, ¦ 127.0.0.1, x'),
  'X-HTTP-Method-Override': ['DELETE'],
  'Accept-Encoding': listed('gzip;q=x ¦ *;q=0'),
};

function oneOf(mediaTypes: readonly string[]): fc.Arbitrary<Header> {
  const known = Object.entries(VALUES).map(([name, values]) =>
    fc.tuple(fc.constant(name), fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...values) }, text(40))),
  );
  const anyName = fc.constantFrom(
    ...Object.keys(VALUES),
    'Accept',
    'X-A',
    '__proto__',
    'constructor',
    'X-'.repeat(200),
  );
  return fc.oneof(
    { weight: 8, arbitrary: fc.tuple(fc.constant('Accept'), fc.oneof(accepted(mediaTypes), text(30))) },
    ...known.map((arbitrary) => ({ weight: 2, arbitrary })),
    { weight: 1, arbitrary: fc.tuple(anyName, long) },
  );
}

/** More than this ends the connection, which framing.ts covers. */
const HEAD_BYTES_MAX = 24_000;

function within(list: readonly Header[]): readonly Header[] {
  let bytes = 0;
  return list.filter(([name, value]) => (bytes += name.length + value.length) < HEAD_BYTES_MAX);
}

/** One to five of them over valid ones; some twice; now and then three hundred. */
export function malformedHeaders(fixture: Fixture): fc.Arbitrary<Message> {
  const some = fc.array(oneOf(fixture.mediaTypes), { minLength: 1, maxLength: 5 });
  const twice = some.map((list) => [...list, ...list]);
  const hundreds = fc
    .constantFrom('X-A', 'Accept', 'If-Match', 'Cookie', 'Idempotency-Key')
    .map((name) => Array.from({ length: 300 }, (_, index): Header => [name, `"${index}"`]));
  const lists = fc.oneof(
    { weight: 16, arbitrary: some },
    { weight: 3, arbitrary: twice },
    { weight: 1, arbitrary: hundreds },
  );
  const bodies = new Map([
    ['POST', Buffer.from('{}')],
    ['PATCH', Buffer.from('{}')],
    ['PUT', Buffer.from('{}')],
  ]);
  return fc
    .tuple(fc.constantFrom(...fixture.spots), fc.constantFrom(...fixture.credentials), lists)
    .map(([spot, who, list]) => {
      const named = new Set(list.map(([name]) => name.toLowerCase()));
      const headers = [...who.filter(([name]) => !named.has(name.toLowerCase())), ...list];
      const body = bodies.get(spot.method);
      const contentType = named.has('content-type') ? undefined : 'application/json';
      return messageOf(fixture, {
        spot,
        headers: within(headers),
        ...(body && { body }),
        ...(body && contentType && { contentType }),
      });
    });
}
