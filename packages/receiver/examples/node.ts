/** A receiver on plain node:http. WEBHOOK_KEY is the encryption_key of the webhook, WEBHOOK_OLD_KEY the one before it. */
import { createServer, type IncomingMessage } from 'node:http';
import { rememberIds, verifyDelivery, WebhookError } from '@halcyon/receiver';

const { WEBHOOK_KEY, WEBHOOK_OLD_KEY, PORT = '3000' } = process.env;
const BODY_BYTES = 4 * 1024 * 1024;
const isNew = rememberIds();

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES) throw new Error('The body is too large'); // Which ends the connection.
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function answerTo(request: IncomingMessage): Promise<number> {
  try {
    const body = await bodyOf(request);
    const keys = [WEBHOOK_KEY, WEBHOOK_OLD_KEY];
    const { id, event, json } = await verifyDelivery({ headers: request.headers, body, keys });
    if (isNew(id)) console.log(event, json()); // Put it into your queue, and work on it after the answer.
    return 204;
  } catch (error) {
    console.error(error instanceof WebhookError ? error.message : error);
    return error instanceof WebhookError ? error.status : 500;
  }
}

const server = createServer((request, response) => {
  void answerTo(request).then((status) => response.writeHead(status).end());
});
server.listen(Number(PORT), '127.0.0.1', () => console.log('listening', server.address()));
