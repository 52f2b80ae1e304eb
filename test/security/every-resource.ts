/** Every resource of the table with an existing object, and raw requests to it. */
import { connect } from 'node:net';
import { METHODS, type Method, type Resource } from '#http/route.ts';
import { testClock } from '../setup/clock.ts';
import { startFurnishedApp, type FurnishedApp } from '../setup/app-with-resources.ts';
import { fillIn, resourceTable } from './route-table.ts';

export type Answer = {
  status: number;
  headers: Readonly<Record<string, string>>;
  /** The bytes after the head until the connection was closed. */
  body: string;
};
/** A header of null is not sent. */
export type Headers = Readonly<Record<string, string | null>>;
export type Ask = (method: string, path: string, headers?: Headers, body?: string) => Promise<Answer>;

const ANSWER_TIMEOUT_MS = 10_000;

function readAnswer(text: string): Answer {
  const end = text.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = text.slice(0, end).split('\r\n');
  const headers = lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  const all = Object.fromEntries(headers) as Record<string, string>;
  return { status: Number(statusLine.split(' ')[1]), headers: all, body: text.slice(end + 4) };
}

/** Sends one request on a connection of its own, without the headers that a client library adds. */
function exchange(port: number, text: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const chunks: Buffer[] = [];
  const socket = connect(port, '127.0.0.1', () => socket.write(text));
  socket.setTimeout(ANSWER_TIMEOUT_MS, () =>
    socket.destroy(new Error(`No end of the answer to ${text.slice(0, 200)}`)),
  );
  socket.on('data', (chunk: Buffer) => void chunks.push(chunk));
  socket.on('end', () => resolve(readAnswer(Buffer.concat(chunks).toString())));
  socket.on('error', reject);
  return promise;
}

const createAsk =
  (baseUrl: string): Ask =>
  (method, path, headers = {}, body = '') => {
    const { host, port } = new URL(baseUrl);
    const all = {
      Host: host,
      Connection: 'close',
      'SERVICE-API-VERSION': '1',
      'Content-Type': body === '' ? null : 'application/json',
      'Content-Length': body === '' ? null : String(Buffer.byteLength(body)),
      ...headers,
    };
    const lines = Object.entries(all).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]));
    return exchange(Number(port), [`${method} ${path} HTTP/1.1`, ...lines, '', body].join('\r\n'));
  };

export type Place = {
  route: Resource;
  /** As in the table. */
  path: string;
  /** With ids of existing objects. */
  at: string;
  methods: readonly Method[];
  allow: readonly string[];
  /** A token that may do this here. */
  bearer: (method: Method) => { Authorization: string };
};

/** Of the two kinds of tokens the one that may read this. */
async function readerOf(app: FurnishedApp, ask: Ask, at: string): Promise<string> {
  for (const token of [app.token, app.platformToken]) {
    const { status } = await ask('GET', at, { Authorization: `Bearer ${token}` });
    if (status === 200) return token;
  }
  throw new Error(`Neither the store's token nor the platform's finds anything at ${at}`);
}

/** Endless responses have one format: test/journeys/pull-webhooks.test.ts reads them. */
export function isStream({ operations }: Resource): boolean {
  return operations.GET?.isStream === true;
}

async function placeOf(app: FurnishedApp, ask: Ask, route: Resource): Promise<Place> {
  const { operations, path } = route;
  const at = fillIn(route, app.named);
  const methods = METHODS.filter((method) => operations[method] !== undefined);
  const reads = operations.GET !== undefined;
  const reader = reads && !isStream(route) ? await readerOf(app, ask, at) : app.token;
  const tokenFor = (method: Method) =>
    ['platform', 'owner', 'self'].includes(operations[method]?.access ?? '') ? app.platformToken : reader;
  const bearer = (method: Method) => ({ Authorization: `Bearer ${tokenFor(method)}` });
  return { route, path, at, methods, allow: [...methods, ...(reads ? ['HEAD'] : []), 'OPTIONS'].toSorted(), bearer };
}

export async function startWalk() {
  // The preview of a pending delivery contains the present time, so its tag lasts no longer than a second.
  const now = new Date();
  const clock = { ...testClock(), now: () => now };
  const app = await startFurnishedApp({ env: { API_RATE_PER_SECOND: '0' }, clock });
  const ask = createAsk(app.baseUrl);
  const places: Place[] = [];
  // What only people read has pages and no other format.
  const isOfPrograms = ({ operations }: Resource) =>
    Object.values(operations).some(({ access }) => access !== 'person');
  for (const route of resourceTable(app.baseUrl).filter(isOfPrograms)) places.push(await placeOf(app, ask, route));
  const readable = places.filter(({ methods, route }) => methods.includes('GET') && !isStream(route));
  return { app, ask, places, readable };
}

/** Returns the entries of a header that is a list, sorted. */
export function listOf(header: string | undefined): string[] {
  return (header ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .toSorted();
}
