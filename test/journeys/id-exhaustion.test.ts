/** A day whose ids are used up: publishing is rejected until there are others, and no id is assigned twice. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPublishFixture } from '../setup/publish-fixture.ts';

const fixture = await openPublishFixture();
const { app, sql } = fixture;
await fixture.addWebhook(app.baseUrl, 'transaction');

type Numbered = 'event' | 'delivery';

/** Advances the sequences of events or of deliveries to this share of their range. */
const use = (what: Numbered, share: number) => sql`
  select setval(sequencename::text::regclass, (max_value * ${share}::float8)::bigint) from pg_sequences
  where sequencename like ${`${what}_n%`}`;

let next = 0;
const transactions = (count: number) =>
  Array.from({ length: count }, () => ({ event: 'transaction/created', resource: { id: (next += 1) } }));

async function countOf(table: Numbered): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from ${sql(table)}`;
  return row?.n ?? -1;
}

for (const what of ['delivery', 'event'] as const)
  test(`without a free id (${what}) a publish is rejected and leaves nothing`, async () => {
    assert.equal((await fixture.publish(app.baseUrl, transactions(1))).status, 200);
    await use(what, 1);
    const before = [await countOf('event'), await countOf('delivery')];
    const refused = await fixture.publish(app.baseUrl, transactions(600));
    assert.equal(refused.status, 503, refused.text);
    assert.match(refused.text, /"code":"unavailable","message":"[^"]*midnight UTC/);
    assert.deepEqual([await countOf('event'), await countOf('delivery')], before);
    await use(what, 0.5);
    assert.equal((await fixture.publish(app.baseUrl, transactions(1))).status, 200);
  });
