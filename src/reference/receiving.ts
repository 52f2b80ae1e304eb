/**
 * How to receive deliveries of this server: names of headers, retries, and the programs of docs/verify, which are tested with
 * deliveries, under the names of its headers.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { json, number, text, type Document } from '#hypermedia/document.ts';
import type { Setting } from './setting.ts';

const FOLDER = join(import.meta.dirname, '../../docs/verify');

/** `rawBody`: where the unchanged body is in common frameworks. */
type Program = { language: string; file: string; rawBody: string; source: string };

const read = (language: string, file: string, rawBody: string): Program => ({
  language,
  file,
  rawBody,
  source: readFileSync(join(FOLDER, file), 'utf8'),
});

/** Reads the files when the module is loaded, so that a server whose files are incomplete does not start. */
const programs: readonly Program[] = [
  read('JavaScript', 'javascript/verify.mjs', 'express.raw({ type: () => true }), await request.arrayBuffer()'),
  read('Python', 'python/verify.py', 'Flask request.get_data(), Django request.body, FastAPI await request.body()'),
  read('PHP', 'php/verify.php', "file_get_contents('php://input'), Laravel $request->getContent()"),
  read('Ruby', 'ruby/verify.rb', 'Rack request.body.read, Rails request.raw_post'),
  read('Go', 'go/verify.go', 'io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))'),
  read('Java', 'java/Verify.java', 'Spring @RequestBody byte[] body, servlets request.getInputStream().readAllBytes()'),
];

/** Returns the programs with another prefix of headers, which are in lower case where they are compared. */
export function programsFor(prefix: string): readonly Program[] {
  return programs.map(({ language, file, rawBody, source }) => ({
    language,
    file,
    rawBody,
    source: source
      .replaceAll('Service-Webhook-', `${prefix}-Webhook-`)
      .replaceAll('service-webhook-', `${prefix.toLowerCase()}-webhook-`),
  }));
}

/** Returns the Document of `/docs/receiving`. */
export function receivingDocument(setting: Setting): Document {
  const { naming, webhookHeaderPrefix: prefix, deliveries, handshakeOrigin, installCommands } = setting;
  return {
    name: 'receiving',
    title: 'Receiving webhooks',
    links: [
      { rel: 'self', href: `${naming.baseUrl}/docs/receiving`, title: 'Receiving webhooks' },
      { rel: 'event_types', href: `${naming.baseUrl}/docs/events`, title: 'All event types' },
      { rel: 'docs', href: `${naming.baseUrl}/docs`, title: 'Documentation of this API', type: 'text/html' },
    ],
    embedded: [],
    properties: [
      text('header_prefix', prefix),
      text.orNull('handshake_origin', handshakeOrigin ?? null),
      number('timeout_seconds', deliveries.timeoutSeconds),
      json('retry_seconds', deliveries.retrySeconds),
      json('packages', { npm: installCommands.npm ?? null, python: installCommands.python ?? null }),
      json(
        'programs',
        programsFor(prefix).map(({ language, source }) => ({ language, source })),
      ),
    ],
  };
}
