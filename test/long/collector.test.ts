/** A trace from a publish to its receiver, sent by the published SDK of OpenTelemetry to a sink of OTLP over HTTP. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { cleanups } from '../setup/cleanups.ts';
import { startReceiver } from '../setup/receiver.ts';
import { startTraced } from '../setup/traced-program.ts';
import { until } from '../setup/until.ts';

type Attribute = { key: string; value: Record<string, unknown> };
type Span = {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  kind: number;
  attributes: Attribute[];
};
type Export = { resourceSpans: { resource: { attributes: Attribute[] }; scopeSpans: { spans: Span[] }[] }[] };
/** `process`: the id of the process that exported the span. */
type Received = Span & { process: unknown };

const ends = cleanups();
const valueOf = (attributes: readonly Attribute[], name: string): unknown =>
  Object.values(attributes.find(({ key }) => key === name)?.value ?? {})[0];

/** Starts a sink of OTLP/HTTP with JSON. */
async function startSink(): Promise<{ url: string; spans: Received[] }> {
  const spans: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .on('end', () => {
        assert.equal(`${request.method} ${request.url}`, 'POST /v1/traces');
        const { resourceSpans } = JSON.parse(Buffer.concat(chunks).toString()) as Export;
        for (const { resource, scopeSpans } of resourceSpans) {
          const process = valueOf(resource.attributes, 'process.pid');
          for (const scope of scopeSpans) for (const span of scope.spans) spans.push({ ...span, process });
        }
        response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
      });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans };
}

/** Installs the SDK and writes the file that registers it, both as docs/operating.md says. */
async function installSdk(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-otel-'));
  ends.after(() => rm(folder, { recursive: true, force: true }));
  const document = await readFile(join(import.meta.dirname, '../../docs/operating.md'), 'utf8');
  const sdk = /@opentelemetry\/sdk-node@[\d.]+/.exec(document)?.[0] ?? assert.fail();
  const register = /```js\n(import \{ NodeSDK \}.*?)```/s.exec(document)?.[1] ?? assert.fail();
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--prefix', folder, sdk]);
  await writeFile(join(folder, 'register.mjs'), register);
  return join(folder, 'register.mjs');
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';
const PUBLISH = 'POST /stores/:store_id/events';

test('the collector gets request, batch and attempts of a publish as one trace, from all processes, and the receiver continues it', async () => {
  const [sink, receiver, register] = [await startSink(), await startReceiver(ends), await installSdk()];
  receiver.answer((_got, response) => void response.writeHead(receiver.got.length === 1 ? 503 : 204).end());
  const { program, publish } = await startTraced(ends, {
    receiver: receiver.url,
    register,
    env: {
      PROCESSES: '2',
      HOME: tmpdir(),
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_LOGS_EXPORTER: 'none',
    },
  });
  const order = (id: number) => ({ event: 'transaction/created', resource: { id } });
  assert.equal((await publish(order(1), { traceparent: `00-${TRACE}-${CALLER}-01` })).status, 201);
  await receiver.until(2);
  // Each connection is new, so both processes get some of these.
  const publishers = async () => {
    await publish(order(2));
    return new Set(sink.spans.filter(({ name }) => name === PUBLISH).map((span) => span.process));
  };
  await until(publishers, ({ size }) => size === 2);
  // What the SDK has not sent yet is sent at the stop.
  assert.equal(await program.end('SIGTERM'), 0);
  const spans = sink.spans.filter(({ traceId }) => traceId === TRACE);
  const named = (name: string) => spans.filter((span) => span.name === name);
  const [[request], [batch]] = [named(PUBLISH), named('publish batch')];
  const numberOf = ({ attributes }: Span): number => Number(valueOf(attributes, 'halcyon.attempt'));
  const attempts = named('POST').toSorted((a, b) => numberOf(a) - numberOf(b));
  assert.equal(request?.parentSpanId, CALLER);
  assert.deepEqual(
    [batch, ...attempts].map((span) => span?.parentSpanId),
    Array.from({ length: 3 }, () => request?.spanId),
  );
  assert.deepEqual(
    attempts.map((span) => [numberOf(span), Number(valueOf(span.attributes, 'http.response.status_code'))]),
    [
      [1, 503],
      [2, 204],
    ],
  );
  assert.deepEqual(
    receiver.got.slice(0, 2).map(({ headers }) => headers['traceparent']),
    attempts.map(({ spanId }) => `00-${TRACE}-${spanId}-01`),
  );
});
