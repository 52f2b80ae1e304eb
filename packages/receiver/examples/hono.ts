/** A receiver on Hono. WEBHOOK_KEY is the encryption_key of the webhook, WEBHOOK_OLD_KEY the one before it. */
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { rememberIds } from '@halcyon/receiver';
import { receiveWebhooks } from '@halcyon/receiver/hono';

const { WEBHOOK_KEY, WEBHOOK_OLD_KEY, PORT = '3000' } = process.env;
const isNew = rememberIds();
const app = new Hono();

app.post(
  '/hook',
  receiveWebhooks({ keys: [WEBHOOK_KEY, WEBHOOK_OLD_KEY] }, ({ id, event, payload }) => {
    if (isNew(id)) console.log(event, payload); // Put it into your queue, and work on it after the answer.
  }),
);

// On a platform that takes a fetch handler: export default app.
serve({ fetch: app.fetch, port: Number(PORT), hostname: '127.0.0.1' }, (address) => console.log('listening', address));
