/**
 * Creates the HTTP server: a fastify instance with our limits, raw bodies and one error handler, which also covers input that is no
 * request (malformed HTTP, `Expect`). Responses are sent in the order of the requests.
 */
import type { Server, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { nodeHttp } from '#core/node-http.ts';
import { invalid, Problem } from '#core/problem.ts';
import { isTracing } from '#core/tracing.ts';
import { readBodies } from './bodies/arriving.ts';
import { storedCaller } from './caller.ts';
import { corsHeaders } from './answers.ts';
import { mountRawEndpoint } from './raw-endpoint.ts';
import { errorDocument, newLogref, toProblem } from './errors.ts';
import { representationHeaders, viewOf } from './reply.ts';
import { defaultRepresentation, negotiate } from '#hypermedia/render.ts';
import { mountResource } from './resource.ts';
import type { Services } from './services.ts';
import { reportProblem, timesSent, traceRequests, ROUTER, createAddresses, errorHandlerOf } from './requests.ts';
import type { Route } from './route.ts';
import { rootOf } from './root.ts';

const refuseSchema = (): never => {
  throw new TypeError('A route of Fastify has no schema here: its operation has one');
};
/** Without compilers of its own Fastify loads Ajv and a serializer at every start: 8 MiB and 45 ms. */
const NO_SCHEMAS = { compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema } };

/** Limits of responses that clients do not read. */
type UnsentLimits = {
  /** A connection that has something unsent is closed if its client reads nothing for this time, at the latest after twice as long. */
  unsentMs: number;
  /** The limit of all connections of the process together: before more is sent, those with the oldest responses are closed. */
  unsentBytesMax: number;
};

/** All connections are counted when this much was sent since the last time: a client can send a thousand requests at once. */
const COUNTED_EVERY_BYTES = 64 * 1024;

/** The responses that have not ended, with the bytes of those that are about to be written. */
type OpenResponses = Map<ServerResponse, number>;

const sizeOf = (payload: unknown): number =>
  typeof payload === 'string' || payload instanceof Uint8Array ? payload.length : 0;

function unsentOf(responses: OpenResponses): number {
  let total = 0;
  for (const [response, bytes] of responses) total += response.headersSent ? response.writableLength : bytes;
  return total;
}

/**
 * Closes connections, the oldest first, until the others are within the limit. As everywhere in these limits by a reset: after a normal
 * end the kernel keeps what is unsent for minutes.
 */
function closeOldest(connections: ReadonlyMap<Socket, OpenResponses>, { unsentBytesMax }: UnsentLimits): void {
  const unsent = [...connections].map(([connection, responses]) => ({ connection, bytes: unsentOf(responses) }));
  let total = unsent.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { connection, bytes } of unsent) {
    if (total <= unsentBytesMax) return;
    if (bytes > 0) connection.resetAndDestroy();
    total -= bytes;
  }
}

/** Applies the limits to all responses of the server. What a stream sends does not start a count, and is counted. */
export function limitUnsent(app: FastifyInstance, limits: UnsentLimits): void {
  const connections = new Map<Socket, OpenResponses>();
  let uncounted = 0;
  // A response that waits for another one of its connection is not closed with it.
  app.server.on('connection', (connection: Socket) => connection.once('close', () => connections.delete(connection)));
  app.addHook('onRequest', ({ raw: { socket } }, reply, done) => {
    const { raw } = reply;
    // A request of this process to itself (raw-endpoint.ts) has no connection.
    if (!(socket instanceof Socket)) return done();
    // A pipelined request after the one that exceeded UNANSWERED_MAX.
    if (socket.destroyed) return void reply.hijack();
    const responses = connections.get(socket) ?? new Map<ServerResponse, number>();
    connections.set(socket, responses.set(raw, 0));
    raw.once('close', () => {
      responses.delete(raw);
      if (responses.size === 0) connections.delete(socket);
    });
    // Node waits once more if the client took a byte meanwhile. A response that is not ready has nothing unsent, and may take longer.
    raw.setTimeout(limits.unsentMs, () => {
      if (raw.writableLength > 0) socket.resetAndDestroy();
    });
    done();
  });
  app.addHook('onSend', ({ raw: { socket } }, { raw }, payload, done) => {
    // A stream that was ended because its client does not read.
    if (payload instanceof Readable) payload.once('close', () => payload.readableEnded || socket.resetAndDestroy());
    const bytes = sizeOf(payload);
    connections.get(socket)?.set(raw, bytes);
    uncounted += bytes;
    if (uncounted >= COUNTED_EVERY_BYTES) {
      uncounted = 0;
      closeOldest(connections, limits);
    }
    done();
  });
}

type ConnectionError = Error & { code?: string };

/** A client that sends more requests before it reads their responses is disconnected: each takes some 20 KB. */
const UNANSWERED_MAX = 100;

/** The status for what the parser of Node refuses, by its code. */
const REFUSED: Readonly<Record<string, number>> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 };

/** Creates the handlers. `refusal` returns a whole response to malformed input, with `Connection: close`. */
function createConnections(refusal: (status: number) => string) {
  /** Unfinished responses of a connection, in the order of their requests. */
  const answers = new WeakMap<Socket, Set<ServerResponse>>();

  const track = (socket: Socket, response: ServerResponse): void => {
    const waiting = answers.get(socket) ?? new Set();
    answers.set(socket, waiting.add(response));
    response.once('close', () => waiting.delete(response));
    if (waiting.size > UNANSWERED_MAX) socket.resetAndDestroy();
  };

  const end = (socket: Socket, status: number, broken: ServerResponse | undefined): void => {
    // A request that was aborted in its body may have its response already.
    if (broken?.headersSent === true) socket.end();
    else if (socket.writable) socket.end(refusal(status));
  };

  return {
    watch: (server: Server): void => {
      server.on('connection', (socket: Socket) => {
        // A client that resets its connection at once has no address. Node keeps that of others after their end.
        if (socket.remoteAddress === undefined) socket.destroy();
      });
      server.prependListener('request', ({ socket, headers }, response) => {
        if (headers.expect === undefined) track(socket, response);
      });
      server.on('checkContinue', (request, response) => {
        track(request.socket, response);
        const sendContinue = (): void => {
          response.writeContinue();
          server.emit('request', request, response);
        };
        // While an earlier response is unfinished, Node 26 would write "100 Continue" between its head and body.
        if (response.socket === null) response.once('socket', sendContinue);
        else sendContinue();
      });
    },
    /** Sends the error response after the unfinished ones, if the peer still reads. */
    refuse: (error: ConnectionError, socket: Socket): void => {
      if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
      const status = REFUSED[error.code ?? ''] ?? 400;
      const all = [...(answers.get(socket) ?? [])];
      const broken = all.find(({ req }) => !req.complete);
      const last = all.findLast((response) => response !== broken && !response.closed);
      if (last === undefined) end(socket, status, broken);
      else last.once('close', () => end(socket, status, broken));
    },
  };
}

/**
 * Throws a 400 for a repeated header: Node.js reads the first and drops the others, while a proxy may have read another
 * (RFC 9112 §3.2, RFC 9110 §5.3).
 */
function refuseRepeated({ raw }: FastifyRequest): void {
  for (const name of ['Host', 'Authorization'])
    if (timesSent(raw, name.toLowerCase()) > 1)
      throw invalid({ code: 'invalid_header', message: `${name} is sent more than once`, field: name });
}

/** Removes the slash at the end of the path of BASE_URL, with which clients request the home that append their paths to a slash. */
function withoutSlash(url: string, home: string): string {
  const isHome = home !== '' && url.startsWith(`${home}/`) && /^\/(?:\?|$)/.test(url.slice(home.length));
  return isHome ? home + url.slice(home.length + 1) : url;
}

/** Calls `done` when the work is done; at once if there is none. */
function continueAfter(work: Promise<unknown> | undefined, done: (error?: Error) => void): void {
  if (work === undefined) done();
  else
    work.then(
      () => done(),
      (error: unknown) => done(error as Error),
    );
}

/** The addresses of fixed-addresses.ts. */
const PROBE = /\/health\/(?:live|ready)$/;

/** Browsers use https for a year after one https response (RFC 6797). */
const STRICT_TRANSPORT = { 'Strict-Transport-Security': 'max-age=31536000' } as const;

function sendProblem(services: Services, request: FastifyRequest, reply: FastifyReply, thrown: unknown) {
  const { problem, logref } = reportProblem(services, request, thrown);
  let representation = defaultRepresentation;
  try {
    representation = negotiate(request.headers.accept);
  } catch {
    // Nothing acceptable: an error in the default format is more useful than an empty response.
  }
  const { format } = representation;
  const [path] = request.url.split('?', 1);
  const document = errorDocument(problem, logref, `${services.naming.baseUrl}${path ?? ''}`);
  const view = format.isPage === true ? viewOf(services, storedCaller(request)?.visitor, document) : undefined;
  const body = format.render(document, services.naming, view);
  // Requests without a route have no CORS headers yet, and scripts of other sites must be able to read errors, too.
  reply.headers({ 'X-Content-Type-Options': 'nosniff', ...corsHeaders });
  representationHeaders(reply, representation, view?.session !== undefined);
  return reply.code(problem.status).headers(problem.headers).send(Buffer.from(body));
}

/** Returns the raw response to malformed HTTP, in the common error format. */
function refusalOf(services: Services, status: number): string {
  const problem = toProblem({ statusCode: status }, () => undefined);
  const body = defaultRepresentation.format.render(errorDocument(problem, newLogref()), services.naming);
  const head = `HTTP/1.1 ${status} ${nodeHttp.STATUS_CODES[status]}\r\nContent-Type: ${defaultRepresentation.mediaType}`;
  return `${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
}

/**
 * Creates the server with all routes of the table, ready to listen. Other addresses respond with a 404 in the common
 * error format.
 */
export function createServer(services: Services, routes: readonly Route[]): FastifyInstance {
  const { settings } = services;
  const isHttps = settings.authOrigin.startsWith('https:');
  const connections = createConnections((status) => refusalOf(services, status));
  const home = rootOf(services.naming.baseUrl);
  const app = fastify({
    bodyLimit: settings.bodyLimitBytes,
    requestTimeout: settings.requestTimeoutMs,
    http: { maxHeaderSize: settings.headersLimitBytes },
    rewriteUrl: ({ url = '/' }) => withoutSlash(url, home),
    routerOptions: ROUTER,
    exposeHeadRoutes: false,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    logger: false,
    schemaController: NO_SCHEMAS,
    trustProxy: settings.trustedProxies.length === 0 ? false : [...settings.trustedProxies],
    // A malformed address never reaches a route.
    frameworkErrors: (error, request, reply) => void sendProblem(services, request, reply, error),
    clientErrorHandler: connections.refuse,
  });
  connections.watch(app.server);
  if (isTracing) traceRequests(app);
  services.watchRequests(app);
  limitUnsent(app, settings);
  const addresses = createAddresses();
  // Hooks with a callback: the six of a request took 8 µs as async functions.
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('X-Content-Type-Options', 'nosniff');
    if (isHttps) reply.headers(STRICT_TRANSPORT);
    // Sets the header before anything can fail: scripts of other sites must be able to read errors, too.
    if (request.routeOptions.config.cors === true) reply.headers(corsHeaders);
    let ready: Promise<unknown> | undefined;
    try {
      refuseRepeated(request);
      if (request.is404) addresses.refuseUnserved(request, reply);
      else if (!PROBE.test(request.routeOptions.url ?? '')) ready = services.beforeRequest();
    } catch (error) {
      return done(error as Error);
    }
    continueAfter(ready, done);
  });
  app.addHook('onSend', ({ method }, reply, _payload, done) => {
    if (services.isStopping()) reply.header('Connection', 'close');
    continueAfter(method === 'GET' || method === 'HEAD' ? undefined : services.beforeReply(), done);
  });
  // bodies/body.ts parses what handlers receive, and describes faults.
  readBodies(app, settings);
  app.setErrorHandler((error, request, reply) => {
    const send = errorHandlerOf(request);
    if (send) send(error, request, reply);
    else void sendProblem(services, request, reply, error);
  });
  app.setNotFoundHandler((request, reply) => {
    const fault = { code: 'not_found', message: 'Nothing found at this address' };
    return sendProblem(services, request, reply, new Problem(404, fault));
  });
  for (const route of routes) {
    if (route.kind === 'resource') mountResource(app, services, route, { routes, addresses });
    else mountRawEndpoint(app, services, route, addresses);
  }
  addresses.refuseShadowed(app);
  return app;
}
