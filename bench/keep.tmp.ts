import { writeFileSync } from 'node:fs';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { letAppIn } from '../test/setup/grant-access.ts';
import { seedHistory } from './setup/history-seed.ts';
import { bench, print } from './setup/run.ts';
import { startServer } from './setup/server.ts';
import { seedClient } from './setup/token-seed.ts';
await bench({ numbers: { events: 1_000_000, resources: 550_000 } }, async (options, defer) => {
  const server = await startServer(defer, 'external', { observed: true });
  const { origin, sql, secretKey } = server;
  const seeded = await seedClient(sql);
  const { storeId } = seeded;
  const now = new Date();
  const app = await createClient(sql, { name: 'App', redirectUris: ['https://app.example.com/'], trusted: false, now });
  const grant = { clientId: app.client_id, userId: seeded.userId, storeId, now };
  const { access_token: token } = await letAppIn({ sql, baseUrl: origin }, grant);
  const ids = await seedHistory(sql, storeId, secretKey, {
    days: 30,
    events: options.events,
    deliveriesPerEvent: 1.5,
    resources: options.resources,
    webhooks: 100,
  });
  const [a] =
    await sql`select current_setting('unix_socket_directories') as dir, current_setting('port') as port, current_database() as db, current_user as u, current_setting('data_directory') as data`;
  writeFileSync('/tmp/w/keep.json', JSON.stringify({ origin, token, storeId, hook: ids[0], ...a }));
  print('ready');
  await new Promise(() => {
    setInterval(() => {}, 1e9);
  });
});
