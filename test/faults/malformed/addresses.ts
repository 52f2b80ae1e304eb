/** Addresses that do not exist, or that are spelled in an unsafe way: paths and queries. */
import * as fc from 'fast-check';
import type { Fixture, Spot } from './fixture.ts';
import { listed } from './text-list.ts';
import { messageOf, type Message } from './message.ts';
import { anyText } from '../../setup/any-text.ts';

const NUMBERS = listed(
  '0 ¦ -1 ¦ 00 ¦ 1e3 ¦ 0x10 ¦ 1.5 ¦ 9007199254740991 ¦ 9007199254740993 ¦ 999999999999999999999999999999 ¦ NaN ¦ +1 ¦ ٣',
);
const TEXTS = listed(
  " ¦ a ¦ * ¦ ** ¦ *a* ¦ % ¦ _ ¦ \\ ¦ ' ¦ ' or 1=1 -- ¦ \0 ¦ a\0b ¦ \u{10ffff} ¦ 💳 ¦ é ¦ e\u0301 ¦ null ¦ true ¦ yes",
);
const DATES = listed(
  '2026-11-20T16:05:03+0000 ¦ 2026-11-20 ¦ 99999-01-01T00:00:00+0000 ¦ 0000-00-00 ¦ -271821-04-20 ¦ infinity ¦ now',
);
const ZOOMS = listed(
  'items ¦ items:item_options ¦ a:b:c:d:e ¦ : ¦ ,,, ¦ items:items:items ¦ __proto__ ¦ items:constructor',
);
const ORDERS = listed('id ¦ id desc ¦ id desc desc ¦ id,id,id ¦ id; drop ¦ date_created asc,name ¦ , ¦ constructor');
const VALUES = [...NUMBERS, ...TEXTS, ...DATES, ...ZOOMS, ...ORDERS, 'items,'.repeat(60), ' '];

const WORDS = listed(
  'offset ¦ limit ¦ order ¦ fields ¦ zoom ¦ id ¦ name ¦ url ¦ is_active ¦ date_created ¦ date_modified ¦ event ¦ status',
  'resource_id ¦ webhook_id ¦ response_code ¦ duration ¦ total ¦ email ¦ domain ¦ role',
);
const STRANGE_WORDS = listed(
  ' ¦ x ¦ __proto__ ¦ constructor ¦ name: ¦ :like ¦ name:nonsense ¦ a:b:c ¦ access_token ¦ client_id ¦ state ¦ done',
);
const OPERATORS = listed(' ¦  ¦ :not ¦ :greaterthan ¦ :lessthan ¦ :like ¦ :in');

const encode = (text: string): string => encodeURIComponent(text.toWellFormed());
/** Spellings that are invalid in a URL, but accepted by parsers. */
const mangled = fc.constantFrom(
  ...listed('% ¦ %zz ¦ %ff ¦ %c0%80 ¦ %ED%A0%80 ¦ %u0041 ¦ %00 ¦ %2 ¦ %% ¦ %25zz ¦ + ¦ && ¦ == ¦ [] ¦ %5B%5D'),
);

const parameter: fc.Arbitrary<string> = fc
  .tuple(
    fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...WORDS) }, fc.constantFrom(...STRANGE_WORDS)),
    fc.constantFrom(...OPERATORS),
    fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(...VALUES).map(encode) },
      mangled,
      anyText({ maxLength: 12 }).map(encode),
    ),
  )
  .map(([name, operator, value]) => `${encode(name)}${operator}=${value}`);

const query = fc.oneof(
  { weight: 20, arbitrary: fc.array(parameter, { minLength: 1, maxLength: 4 }).map((list) => list.join('&')) },
  { weight: 3, arbitrary: parameter.map((one) => Array.from({ length: 5 }, () => one).join('&')) },
  { weight: 3, arbitrary: fc.array(mangled, { minLength: 1, maxLength: 4 }).map((list) => list.join('')) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      'a&'.repeat(10_000),
      'a=1&'.repeat(5_000),
      'zoom='.padEnd(20_000, 'items,'),
      '?'.repeat(500),
    ),
  },
);

const READS = ['GET', 'GET', 'GET', 'HEAD', 'OPTIONS'];

export function malformedQueries(fixture: Fixture): fc.Arbitrary<Message> {
  return fc
    .tuple(
      fc.constantFrom(...fixture.spots),
      fc.constantFrom(...fixture.credentials),
      query,
      fc.constantFrom(...READS, ''),
    )
    .map(([spot, headers, text, read]) =>
      messageOf(fixture, { spot, headers, target: `${spot.path}?${text}`, ...(read === '' ? {} : { method: read }) }),
    );
}

const SEGMENTS = [
  ...listed('.. ¦ . ¦ %2e%2e ¦ %2E. ¦ %2F ¦ %2f..%2f ¦ %5c ¦ \\ ¦ %00 ¦ a%00 ¦ % ¦ %zz ¦ %ff ¦ %c0%af ¦ %ED%A0%80'),
  ...listed(
    ' ¦ ;a=b ¦ ~ ¦ @ ¦ : ¦ :store_id ¦ * ¦ {id} ¦ %7Bid%7D ¦ __proto__ ¦ constructor ¦ toString ¦ %0d%0aX:y ¦ %20 ¦ +',
  ),
  ...listed('%3F ¦ %23 ¦ %F0%9F%92%B3 ¦ %C3%A9 ¦ e%CC%81 ¦ %E2%80%AE'),
  ...[64, 65, 128, 129, 2_000].map((length) => 'a'.repeat(length)),
];
const segment = fc.oneof(
  fc.constantFrom(...SEGMENTS),
  fc.constantFrom(...NUMBERS).map(encode),
  anyText({ maxLength: 10 }).map(encode),
);

function changed({ path }: Spot): fc.Arbitrary<string> {
  const parts = path.split('/').slice(1);
  return fc.tuple(segment, fc.nat({ max: parts.length }), fc.nat({ max: 6 })).map(([odd, at, how]) => {
    if (how === 0) return `${path}/`;
    if (how === 1) return `/${path}`;
    if (how === 2) return `/${[...parts.slice(0, at), odd, ...parts.slice(at)].join('/')}`;
    if (how === 3) return path.toUpperCase();
    return `/${parts.map((part, index) => (index === at ? odd : part)).join('/')}`;
  });
}

export function malformedPaths(fixture: Fixture): fc.Arbitrary<Message> {
  return fc
    .constantFrom(...fixture.spots)
    .chain((spot) =>
      fc
        .tuple(changed(spot), fc.constantFrom(...fixture.credentials), fc.constantFrom(...fixture.mediaTypes, '*/*'))
        .map(([target, who, accept]) => messageOf(fixture, { spot, target, headers: [['Accept', accept], ...who] })),
    );
}
