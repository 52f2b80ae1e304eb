/** The program with a tracer that is registered by `--import`, and what it takes to publish to it. */
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { COMPILED } from './child-environment.ts';
import type { Cleanups } from './cleanups.ts';
import { databaseEnvOf, testDatabase } from './database.ts';
import { populate } from './fleet/population.ts';
import { startProgram } from './fleet/program.ts';
import { freePort } from './free-port.ts';

const ROOT = join(import.meta.dirname, '../..');

/** Starts `halcyon serve` with a store whose only webhook sends to the receiver. `register`: the file that registers the tracer. */
export async function startTraced(
  ends: Cleanups,
  given: { receiver: string; register: string; env?: Record<string, string> },
) {
  const { sql, address } = await testDatabase(ends);
  const [secretKey, port] = [randomBytes(32), await freePort()];
  const { places, platformToken } = await populate(sql, { origins: [given.receiver], secretKey });
  const storeId = places[0]?.storeId ?? 0;
  await sql`delete from webhook where store_id = ${storeId} and url not like ${'%/0'}`;
  // Without a key its requests are shown to the platform as they were sent; only this format may have none.
  await sql`update webhook set format = 'partner_automation', encryption_key = null where store_id = ${storeId}`;
  const program = await startProgram({
    root: ROOT,
    args: ['serve'],
    env: {
      ...databaseEnvOf(address),
      HALCYON_DATA: join(tmpdir(), 'halcyon-traced'),
      HALCYON_SECRET_KEY: secretKey.toString('hex'),
      OUTBOUND_ALLOW: '127.0.0.0/8',
      LOG_LEVEL: 'info',
      PORT: String(port),
      METRICS_PORT: '0',
      ...given.env,
      NODE_OPTIONS: `${COMPILED['NODE_OPTIONS'] ?? ''} --import=${given.register}`,
    },
    ready: 'is ready.',
  });
  ends.after(async () => void (await program.end('SIGKILL')));
  const origin = `http://127.0.0.1:${port}`;
  const token = await platformToken(origin);
  const ask = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(origin + path, {
      method,
      headers: {
        'SERVICE-API-VERSION': '1',
        'Content-Type': 'application/json',
        Authorization: `Bearer ${token}`,
        Connection: 'close',
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  const publish = (body: unknown, headers?: Record<string, string>) =>
    ask('POST', `/stores/${storeId}/events`, body, headers);
  return { program, sql, storeId, ask, publish };
}
