/** A receiver on Fastify. WEBHOOK_KEY is the encryption_key of the webhook, WEBHOOK_OLD_KEY the one before it. */
import fastify from 'fastify';
import { rememberIds, verifyDelivery, WebhookError } from '@halcyon/receiver';

const { WEBHOOK_KEY, WEBHOOK_OLD_KEY, PORT = '3000' } = process.env;
const isNew = rememberIds();
const app = fastify({ bodyLimit: 4 * 1024 * 1024 });

// A plugin of its own, so that the rest of the app goes on getting its JSON parsed.
await app.register(async (hooks) => {
  hooks.removeAllContentTypeParsers();
  hooks.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));

  hooks.post('/hook', async (request, reply) => {
    const { id, event, json } = await verifyDelivery({
      headers: request.headers,
      body: request.body as Buffer,
      keys: [WEBHOOK_KEY, WEBHOOK_OLD_KEY],
    });
    if (isNew(id)) console.log(event, json()); // Put it into your queue, and work on it after the answer.
    return reply.code(204).send();
  });

  hooks.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof WebhookError)) throw error;
    console.error(error.message);
    return reply.code(error.status).send();
  });
});

await app.listen({ port: Number(PORT), host: '127.0.0.1' });
console.log('listening', app.server.address());
