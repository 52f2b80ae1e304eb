/** A receiver on Hono. WEBHOOK_KEY is the encryption_key of the webhook, WEBHOOK_OLD_KEY the one before it. */
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { rememberIds, verifyDelivery, WebhookError } from '@halcyon/receiver';

const { WEBHOOK_KEY, WEBHOOK_OLD_KEY, PORT = '3000' } = process.env;
const isNew = rememberIds();
const app = new Hono();

app.post('/hook', bodyLimit({ maxSize: 4 * 1024 * 1024 }), async (context) => {
  const { id, event, json } = await verifyDelivery({
    headers: context.req.raw.headers,
    body: await context.req.arrayBuffer(),
    keys: [WEBHOOK_KEY, WEBHOOK_OLD_KEY],
  });
  if (isNew(id)) console.log(event, json()); // Put it into your queue, and work on it after the answer.
  return context.body(null, 204);
});

app.onError((error, context) => {
  console.error(error.message);
  return context.body(null, error instanceof WebhookError ? error.status : 500);
});

// On a platform that takes a fetch handler: export default app.
serve({ fetch: app.fetch, port: Number(PORT), hostname: '127.0.0.1' }, (address) => console.log('listening', address));
