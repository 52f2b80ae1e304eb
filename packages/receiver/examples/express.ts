/** A receiver on Express. WEBHOOK_KEY is the encryption_key of the webhook, WEBHOOK_OLD_KEY the one before it. */
import express, { type ErrorRequestHandler } from 'express';
import { rememberIds, verifyDelivery, WebhookError } from '@halcyon/receiver';

const { WEBHOOK_KEY, WEBHOOK_OLD_KEY, PORT = '3000' } = process.env;
const isNew = rememberIds();
const app = express();

// Raw, and of this address alone; an express.json() for the rest of the app has to come after it.
app.post('/hook', express.raw({ type: () => true, limit: '4mb' }), async (request, response) => {
  const { id, event, json } = await verifyDelivery({
    headers: request.headers,
    body: request.body as Buffer,
    keys: [WEBHOOK_KEY, WEBHOOK_OLD_KEY],
  });
  if (isNew(id)) console.log(event, json()); // Put it into your queue, and work on it after the answer.
  response.sendStatus(204);
});

const refuse: ErrorRequestHandler = (error, _request, response, next) => {
  if (!(error instanceof WebhookError)) return next(error);
  console.error(error.message);
  response.sendStatus(error.status);
};
app.use(refuse);

const server = app.listen(Number(PORT), '127.0.0.1', () => console.log('listening', server.address()));
