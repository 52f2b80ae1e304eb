/**
 * What programs look for at fixed addresses: crawlers, password managers, and people who have found a vulnerability at those of any site;
 * supervisors and load balancers at `/health/live` and `/health/ready`, which the metrics listener serves, too (metrics/metrics-server.ts).
 */
import { notFound } from '#core/problem.ts';
import { redirectAnswer, jsonAnswer } from './answers.ts';
import type { RawHandler, RawResponse } from './route.ts';
import { rootOf } from './root.ts';
import { Type } from 'typebox';
import type { Health } from '#core/lifecycle.ts';
import type { Endpoint } from './relation.ts';

/** A contact that is no longer read should not be relied on for long (RFC 9116 §2.5.5). */
const SECURITY_TEXT_EXPIRES_MS = 30 * 86_400_000;

const plainText = (lines: readonly string[]): RawResponse => ({
  status: 200,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'public, max-age=86400' },
  body: `${lines.join('\n')}\n`,
});

type Addresses = { baseUrl: string; authUrl: string };

/** `securityContact`: an address for reports of vulnerabilities; undefined if the operator has set none. */
export function createFixedAddresses(
  { baseUrl, authUrl }: Addresses,
  securityContact: string | undefined,
): Record<'changePassword' | 'robots' | 'securityText', RawHandler> {
  const [api, auth] = [rootOf(baseUrl), rootOf(authUrl)];
  return {
    changePassword: async () => redirectAnswer(`${auth}/account/password`),
    // The documentation and the pages of apps are public; everything else needs a token or a person (RFC 9309).
    robots: async () =>
      plainText([
        'User-agent: *',
        'Allow: /llms.txt',
        `Allow: ${api}/docs`,
        `Allow: ${api}/rels`,
        `Allow: ${auth}/apps/`,
        'Disallow: /',
      ]),
    securityText: async ({ now }) => {
      if (securityContact === undefined) throw notFound('file');
      const expires = new Date(now.getTime() + SECURITY_TEXT_EXPIRES_MS).toISOString();
      return plainText([
        `Contact: ${securityContact}`,
        `Expires: ${expires}`,
        `Canonical: ${new URL('/.well-known/security.txt', authUrl).href}`,
      ]);
    },
  };
}

export type HealthEndpoints = Record<'live' | 'ready', RawHandler>;

export function createHealthEndpoints(health: Health): HealthEndpoints {
  return {
    // Checks nothing else, so that an unavailable database does not end the process.
    live: async () => jsonAnswer(200, { status: 'live' }),
    ready: async () => {
      const readiness = await health.readiness();
      return jsonAnswer(readiness.status === 'ready' ? 200 : 503, readiness);
    },
  };
}

const unready = Type.Object({ status: Type.Literal('unready'), missing: Type.Array(Type.String()) });

const SPECIFICATION = 'docs/operating.md, "Health"';

export function healthEndpoints(baseUrl: string): readonly Endpoint[] {
  return [
    {
      address: `${baseUrl}/health/live`,
      method: 'GET',
      title: 'Liveness',
      summary: 'For the supervisor that restarts the process; checks nothing else, not even the database',
      access: 'Anyone',
      specification: SPECIFICATION,
      returns: Type.Object({ status: Type.Literal('live') }),
      answers: { '200': 'The process is running' },
      example: { status: 'live' },
    },
    {
      address: `${baseUrl}/health/ready`,
      method: 'GET',
      title: 'Readiness',
      summary: 'For load balancers: the database is available, and the process is not stopping',
      access: 'Anyone',
      specification: SPECIFICATION,
      returns: Type.Object({ status: Type.Literal('ready') }),
      fails: unready,
      answers: { '200': 'Ready', '503': 'Not ready: `missing` lists the reasons' },
      example: { status: 'ready' },
    },
  ];
}
