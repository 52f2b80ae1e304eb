/** `/health/live` and `/health/ready` where the API is served; the port of the metrics has them too (metrics/server.ts). */
import type { Health } from '#core/health.ts';
import { jsonAnswer } from './answers.ts';
import type { Endpoint } from './relation.ts';
import type { RawHandler } from './route.ts';

export type HealthEndpoints = Record<'live' | 'ready', RawHandler>;

export const createHealthEndpoints = (health: Health): HealthEndpoints => ({
  // That somebody answers is the answer: it asks nothing, so that a database that is away ends no process.
  live: async () => jsonAnswer(200, { status: 'live' }),
  ready: async () => {
    const readiness = await health.readiness();
    return jsonAnswer(readiness.status === 'ready' ? 200 : 503, readiness);
  },
});

const SPECIFICATION = 'docs/operating.md, "Health"';

export const healthEndpoints = (baseUrl: string): readonly Endpoint[] => [
  {
    address: `${baseUrl}/health/live`,
    method: 'GET',
    title: 'Whether the process lives',
    summary: 'For the supervisor that starts it again; nothing else is asked for it, not even the database',
    access: 'Anyone',
    specification: SPECIFICATION,
    answers: { '200': 'It lives' },
    example: { status: 'live' },
  },
  {
    address: `${baseUrl}/health/ready`,
    method: 'GET',
    title: 'Whether the process can be given work',
    summary: 'For the balancer in front of it: the database answers, and the process is not stopping',
    access: 'Anyone',
    specification: SPECIFICATION,
    answers: { '200': 'It can', '503': 'missing names what it waits for' },
    example: { status: 'ready' },
  },
];
