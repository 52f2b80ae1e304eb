/** Follows every link from home, in one format, and records what it found. */
import assert from 'node:assert/strict';
import { responseChecker, type ApiDescription } from '../../setup/described-responses.ts';
import { ISSUER } from '../../security/oauth-server.ts';
import type { Inhabited } from '../../setup/populated-app.ts';
import type { Reader, Seen } from './readers.ts';

/** `contradictions`: responses that the OpenAPI document does not describe. */
export type Met = { pages: Map<string, string>; rels: Set<string>; contradictions: string[] };

const PAGES_MAX = 1_000;

/** /authorize needs its own parameters, and the contract requires a 400 page without them: no page may link to it. */
const isForOthers = ({ href }: Seen): boolean => href === '/authorize';

type Check = ReturnType<typeof responseChecker>;
/** That of the walk before, with the schemas that it compiled: compiling them takes most of the time of a walk. */
let last: { text: string; check: Check } | undefined;

async function checkerOf(origin: string): Promise<Check> {
  const text = await (await fetch(`${origin}/openapi.json`)).text();
  if (last?.text !== text) last = { text, check: responseChecker(JSON.parse(text) as ApiDescription) };
  return last.check;
}

/** Requests every address that links from home lead to with this token, by GET. Fails on any broken link. */
export async function walk(
  fixture: Inhabited,
  reader: Reader,
  caller: { token?: string; headers?: Record<string, string> },
): Promise<Met> {
  const met: Met = { pages: new Map(), rels: new Set(), contradictions: [] };
  const check = await checkerOf(fixture.origin);
  const waiting: (Seen & { from: string })[] = [{ rel: 'self', href: '/', from: 'home' }];
  const known = new Set(['/']);
  const own = new Set([fixture.origin, new URL(ISSUER).origin]);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    assert.ok(known.size < PAGES_MAX, `more than ${PAGES_MAX} pages`);
    const response = await fixture.call('GET', next.href, { ...caller, accept: reader.accept });
    const text = await response.text();
    const where = `${reader.name}: ${next.href} (${next.rel}), linked from ${next.from}: ${response.status}`;
    // The endpoints of OAuth accept POST only.
    if (response.status === 405) {
      assert.match(response.headers.get('allow') ?? '', /POST/, where);
      continue;
    }
    if (isForOthers(next)) {
      assert.equal(response.status, 400, where);
      assert.notEqual(reader.accept, 'text/html', where);
      continue;
    }
    assert.ok(response.status < 400, `${where} ${text.slice(0, 300)}`);
    met.pages.set(next.href, text);
    const contentType = response.headers.get('content-type') ?? '';
    if (!contentType.startsWith(reader.accept)) continue;
    if (reader.name !== 'HTML') {
      const { pathname: path } = new URL(next.href, fixture.origin);
      met.contradictions.push(...check({ method: 'GET', path, status: response.status, contentType, text }));
    }
    for (const seen of reader.linksIn(text)) {
      if (seen.rel !== '') met.rels.add(seen.rel);
      // `otpauth:` opens the authenticator app.
      if (seen.href === '' || seen.href.startsWith('otpauth:')) continue;
      const { origin, pathname, search } = new URL(seen.href, fixture.origin);
      // Documents link to pages of others, such as RFCs.
      if (next.href.startsWith('/docs/') && !own.has(origin)) continue;
      const href = pathname + search;
      if (known.has(href)) continue;
      known.add(href);
      waiting.push({ rel: seen.rel, href, from: next.href });
    }
  }
  return met;
}
