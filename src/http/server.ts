/** The socket's side: a fastify instance with our limits, raw bodies and one way for errors to leave. */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { METHODS as NODE_METHODS, STATUS_CODES } from 'node:http';
import { invalid, Problem } from '#core/problem.ts';
import { callerIn } from './caller.ts';
import { createConnections } from './connections.ts';
import { corsHeaders } from './cors.ts';
import { mountRawEndpoint } from './raw-endpoint.ts';
import { errorDocument, newLogref, toProblem } from './errors.ts';
import { defaultRepresentation, negotiate } from './negotiate.ts';
import { representationHeaders, viewOf } from './reply.ts';
import { mountResource } from './resource.ts';
import { watchRequests } from './metrics.ts';
import type { Route } from './route.ts';
import { reportProblem, type Services } from './services.ts';

/** Node.js reads the first of several and drops the others, where a proxy may have read another (RFC 9112 §3.2, RFC 9110 §5.3). */
const refuseRepeated = ({ raw: { rawHeaders } }: FastifyRequest): void => {
  for (const name of ['Host', 'Authorization']) {
    // `headersDistinct` would cost 2 µs a request instead of 0.2.
    let count = 0;
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const sent = rawHeaders[at];
      if (sent?.length === name.length && sent.toLowerCase() === name.toLowerCase()) count += 1;
    }
    if (count > 1) throw invalid({ code: 'invalid_header', message: `${name} is sent more than once`, field: name });
  }
};

/** A browser that came over https once comes over https for a year, whatever a link says (RFC 6797). */
const STRICT = { 'Strict-Transport-Security': 'max-age=31536000' } as const;

const sendProblem = (services: Services, request: FastifyRequest, reply: FastifyReply, thrown: unknown) => {
  const { problem, logref } = reportProblem(services, request, thrown);
  let representation = defaultRepresentation;
  try {
    representation = negotiate(request.headers.accept);
  } catch {
    // Nothing acceptable: an error in the default format tells more than an empty answer.
  }
  const { format } = representation;
  const document = errorDocument(problem, logref);
  const view = format.isPage === true ? viewOf(services, callerIn(request)?.visitor, document) : undefined;
  const body = format.render(document, services.naming, view);
  // What reaches no route has not got them yet: a script on another site must be able to read an error, too.
  reply.headers({ 'X-Content-Type-Options': 'nosniff', ...corsHeaders });
  representationHeaders(reply, representation, view?.session !== undefined);
  return reply.code(problem.status).headers(problem.headers).send(Buffer.from(body));
};

/** The answer to what is not HTTP, in the one shape. */
const refusalOf = (services: Services, status: number): string => {
  const problem = toProblem({ statusCode: status }, () => undefined);
  const body = defaultRepresentation.format.render(errorDocument(problem, newLogref()), services.naming);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: ${defaultRepresentation.mediaType}`;
  return `${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
};

/** All addresses, ready to listen. Every route of the table is mounted; what is not there is a 404 in the one shape. */
export const createServer = (services: Services, routes: readonly Route[]): FastifyInstance => {
  const { settings } = services;
  const isHttps = settings.authOrigin.startsWith('https:');
  const connections = createConnections((status) => refusalOf(services, status));
  const app = fastify({
    bodyLimit: settings.bodyLimitBytes,
    requestTimeout: settings.requestTimeoutMs,
    http: { maxHeaderSize: settings.headersLimitBytes },
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: 128 },
    exposeHeadRoutes: false,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    logger: false,
    trustProxy: settings.trustedProxies.length === 0 ? false : [...settings.trustedProxies],
    // An address that cannot be decoded never reaches a route.
    frameworkErrors: (error, request, reply) => void sendProblem(services, request, reply, error),
    clientErrorHandler: connections.refuse,
  });
  connections.watch(app.server);
  watchRequests(app, services.metrics);
  for (const method of NODE_METHODS) {
    if (method !== 'CONNECT' && !app.supportedMethods.includes(method)) app.addHttpMethod(method, { hasBody: true });
  }
  app.addHook('onRequest', async (request, reply) => {
    reply.header('X-Content-Type-Options', 'nosniff');
    if (isHttps) reply.headers(STRICT);
    // Set before anything can fail: a script on another site must be able to read an error, too.
    if (request.routeOptions.config.cors === true) reply.headers(corsHeaders);
    refuseRepeated(request);
  });
  // Rooms see bytes; what they mean is decided by body.ts, which names what is wrong with them.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error, request, reply) => sendProblem(services, request, reply, error));
  app.setNotFoundHandler((request, reply) =>
    sendProblem(
      services,
      request,
      reply,
      new Problem(404, { code: 'not_found', message: 'There is nothing at this address' }),
    ),
  );
  for (const route of routes) {
    if (route.kind === 'resource') mountResource(app, services, route, routes);
    else mountRawEndpoint(app, services, route);
  }
  return app;
};
