/** A receiver on Express. WEBHOOK_KEY is the encryption_key of the webhook, WEBHOOK_OLD_KEY the one before it. */
import express from 'express';
import { rememberIds } from '@halcyon/receiver';
import { receiveWebhooks } from '@halcyon/receiver/express';

const { WEBHOOK_KEY, WEBHOOK_OLD_KEY, PORT = '3000' } = process.env;
const isNew = rememberIds();
const app = express();

// An express.json() for the rest of the app has to come after it.
app.post(
  '/hook',
  receiveWebhooks({ keys: [WEBHOOK_KEY, WEBHOOK_OLD_KEY] }, ({ id, event, payload }) => {
    if (isNew(id)) console.log(event, payload); // Put it into your queue, and work on it after the answer.
  }),
);

const server = app.listen(Number(PORT), '127.0.0.1', () => console.log('listening', server.address()));
