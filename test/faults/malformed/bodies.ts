/** Malformed bodies: JSON, forms and XML, cut, garbled, mislabelled, misspelt. */
import * as fc from 'fast-check';
import { bodiesFor, noise } from '../../security/json-texts.ts';
import type { Fixture, Spot } from './fixture.ts';
import { listed } from './text-list.ts';
import { messageOf, type Message } from './message.ts';

/** Bytes that are invalid in UTF-8: stray bytes, overlong spellings, surrogates, too high; and marks of other encodings. */
const BROKEN = ['ff', 'c080', 'eda080', 'f4908080', 'c3', 'efbbbf', 'fffe', '00', '1f8b08', 'e0a0'].map((hex) =>
  Buffer.from(hex, 'hex'),
);
const insert = (into: Buffer, bytes: Buffer, at: number): Buffer =>
  Buffer.concat([into.subarray(0, at), bytes, into.subarray(at)]);

const spoil = (text: fc.Arbitrary<string>): fc.Arbitrary<Buffer> =>
  fc.tuple(text, fc.nat(), fc.constantFrom(...BROKEN), fc.nat({ max: 5 })).map(([given, n, broken, how]) => {
    const bytes = Buffer.from(given);
    const at = bytes.length === 0 ? 0 : n % bytes.length;
    if (how === 0) return bytes.subarray(0, at);
    if (how === 1) return insert(bytes, broken, at);
    if (how === 2) return insert(bytes, broken, 0);
    if (how === 3) return Buffer.concat([bytes, bytes]);
    if (how === 4) return insert(bytes, Buffer.from([n % 256]), at);
    return bytes;
  });

const field = fc.constantFrom(
  ...listed(
    'name=a ¦ name=a&name=b ¦ events[99999999]=x ¦ events[]=a&events=b ¦ __proto__=1 ¦ is_active=maybe ¦ = ¦ &&& ¦ name',
  ),
  ...listed(
    'a=% ¦ a=%zz ¦ a=%ff ¦ a=%00 ¦ url=http://[ ¦ headers[a]=b ¦ name=%ED%A0%80 ¦ a[b][c]=d ¦ name=+%2B+ ¦ name=\0',
  ),
  ...listed(
    '_method=DELETE ¦ _method=GET&nonce=x ¦ nonce=&nonce= ¦ access_token=x ¦ rate_per_second=1e9 ¦ format=json;name=x',
  ),
);
const form = fc.oneof(
  { weight: 8, arbitrary: fc.array(field, { maxLength: 6 }).map((fields) => fields.join('&')) },
  { weight: 1, arbitrary: fc.integer({ min: 900, max: 3_000 }).map((count) => 'a=1&'.repeat(count)) },
);

const element = fc.constantFrom(
  ...listed(
    '<name>a</name> ¦ <name/> ¦ <name>a ¦ </name> ¦ <events>a</events><events>b</events> ¦ <a:b/> ¦ <x y="1" y="2"/> ¦ ]]>',
  ),
  ...listed(
    '<![CDATA[<a>]]> ¦ <!-- -- --> ¦ <?x y?> ¦ &amp; ¦ &x; ¦ &#0; ¦ &#xD800; ¦ &#99999999; ¦ <name>&lt;</name> ¦ < a>',
  ),
  ...listed(
    '<__proto__>1</__proto__> ¦ <name xmlns="urn:x">a</name> ¦ <link rel="self" href="x"/> ¦ \u0001 ¦ <é/> ¦ <1/>',
  ),
);
const entities =
  '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>';
const outside = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>';
const prologue = fc.constantFrom(
  '',
  '',
  '',
  '<?xml version="1.0"?>',
  '<?xml version="1.1" encoding="utf-16"?>',
  entities,
  outside,
);
const xml = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .tuple(prologue, fc.array(element, { maxLength: 5 }), fc.constantFrom('resource', 'r', 'a b="c"'))
      .map(([head, elements, root]) => `${head}<${root}>${elements.join('')}</${root.split(' ', 1)[0]}>`),
  },
  {
    weight: 1,
    arbitrary: fc.integer({ min: 50, max: 5_000 }).map((deep) => `${'<a>'.repeat(deep)}${'</a>'.repeat(deep)}`),
  },
  { weight: 1, arbitrary: fc.integer({ min: 50, max: 2_000 }).map((many) => `<r ${'a="1" '.repeat(many)}/>`) },
);

const RIGHT_TYPES = ['application/json', 'application/x-www-form-urlencoded', 'application/xml'];
const TYPES = [
  ...RIGHT_TYPES,
  ...listed(
    'application/hal+json ¦ application/hal+xml ¦ application/json; charset=utf-16 ¦ application/json;charset=" ¦ text/json',
  ),
  ...listed(
    'text/plain ¦ text/xml ¦ json ¦  ¦ multipart/form-data; boundary=x ¦ APPLICATION/JSON ; ; ; ¦ / ¦ a/b/c ¦ */*',
  ),
  'application/json, application/xml',
];
const typeFor = (right: string) => fc.oneof({ weight: 6, arbitrary: fc.constant(right) }, fc.constantFrom(...TYPES));

function bodies({ input }: Spot): fc.Arbitrary<readonly [Buffer, string]> {
  const json = input === undefined ? noise : bodiesFor(input);
  return fc.oneof(
    { weight: 4, arbitrary: fc.tuple(spoil(json), typeFor('application/json')) },
    { weight: 2, arbitrary: fc.tuple(spoil(form), typeFor('application/x-www-form-urlencoded')) },
    { weight: 2, arbitrary: fc.tuple(spoil(xml), typeFor('application/xml')) },
    {
      weight: 1,
      arbitrary: fc.tuple(
        fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
        typeFor(''),
      ),
    },
  );
}

/** Also to methods without a body: unread bytes must do no harm. */
export function malformedBodies(fixture: Fixture): fc.Arbitrary<Message> {
  const encoding = fc.constantFrom(...Array.from({ length: 12 }, () => ''), 'gzip', 'br', 'identity', 'x');
  const accept = fc.constantFrom(...fixture.mediaTypes, '*/*');
  return fc.oneof(
    ...fixture.spots.map((spot) => ({
      weight: spot.input === undefined ? 1 : 6,
      arbitrary: fc
        .tuple(bodies(spot), fc.constantFrom(...fixture.credentials), encoding, accept)
        .map(([[body, contentType], who, coding, accepted]) =>
          messageOf(fixture, {
            spot,
            body,
            contentType,
            headers: [['Accept', accepted], ...who, ...(coding === '' ? [] : [['Content-Encoding', coding] as const])],
          }),
        ),
    })),
  );
}

const MIB = 1024 * 1024;

/** At the limit, one below and one above: few, as they are large. */
export function largeBodies(fixture: Fixture): readonly Message[] {
  const [, platform = []] = fixture.credentials;
  return fixture.spots
    .filter(({ input }) => input !== undefined)
    .flatMap((spot) =>
      [MIB - 1, MIB, MIB + 1, ...(spot.path.endsWith('/events') ? [16 * MIB, 16 * MIB + 1] : [])].flatMap((length) =>
        ['{"name":"', 'name=', '<r><name>'].map((start, index) => {
          const contentType = RIGHT_TYPES[index];
          const body = Buffer.alloc(length, 'a');
          body.write(start);
          return messageOf(fixture, { spot, body, headers: platform, ...(contentType && { contentType }) });
        }),
      ),
    );
}
