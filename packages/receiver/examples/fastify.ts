/** A receiver on Fastify. WEBHOOK_KEY is the encryption_key of the webhook, WEBHOOK_OLD_KEY the one before it. */
import fastify from 'fastify';
import { rememberIds } from '@halcyon/receiver';
import { receiveWebhooks } from '@halcyon/receiver/fastify';

const { WEBHOOK_KEY, WEBHOOK_OLD_KEY, PORT = '3000' } = process.env;
const isNew = rememberIds();
const app = fastify();

const receiver = receiveWebhooks({ keys: [WEBHOOK_KEY, WEBHOOK_OLD_KEY] }, ({ id, event, payload }) => {
  if (isNew(id)) console.log(event, payload); // Put it into your queue, and work on it after the answer.
});
await app.register(receiver, { prefix: '/hook' });

await app.listen({ port: Number(PORT), host: '127.0.0.1' });
console.log('listening', app.server.address());
