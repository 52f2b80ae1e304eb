/** Nothing that opens anything stands in the database: every row of every table is read and searched for what is known. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PASSWORD, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, newCode, redeem, client, browser, platform, ada } = server;

/** Every table as text, bytes both as hex and as the characters they would spell. */
const dump = async (): Promise<string> => {
  const tables = await sql<{ name: string }[]>`
    select tablename as name from pg_tables where schemaname = 'public' order by 1`;
  assert.ok(tables.length > 10);
  const texts = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await sql`select * from ${sql(name)}`;
      return JSON.stringify(rows, (_key, value: unknown) => {
        const bytes = value as { type?: string; data?: number[] } | null;
        if (bytes?.type !== 'Buffer' || bytes.data === undefined) return value;
        const buffer = Buffer.from(bytes.data);
        return [buffer.toString('hex'), buffer.toString('latin1'), buffer.toString('base64url')];
      });
    }),
  );
  return texts.join('\n');
};

const PIECE_LENGTH = 16;
const piecesOf = (text: string): string[] =>
  Array.from({ length: text.length - PIECE_LENGTH + 1 }, (_, at) => text.slice(at, at + PIECE_LENGTH));

test('no password, session, code, token or client secret can be read from the database', async () => {
  const [used, unused] = [await newCode(), await newCode()];
  const { body } = await redeem(used);
  const granted = await server.token({ grant_type: 'client_credentials', ...platform });
  const cookie = browser.jar.get('halcyon') ?? '';
  const secrets = [
    PASSWORD,
    cookie,
    used,
    unused,
    String(body['access_token']),
    String(body['refresh_token']),
    String(granted.body['access_token']),
    client.client_secret,
    platform.client_secret,
  ];
  const text = await dump();
  assert.ok(text.includes(ada) && text.includes(client.client_id), 'the search sees what is there');
  for (const secret of secrets) {
    const random = secret.replace(/^hal_[a-z]{2}_/, '');
    assert.ok(random.length > 20);
    const spellings = [random, Buffer.from(random).toString('hex'), Buffer.from(random, 'base64url').toString('hex')];
    // A half of a secret is too much as well.
    for (const piece of spellings.flatMap(piecesOf))
      assert.ok(!text.includes(piece), `${secret} can be read: ${piece}`);
  }
});
