/**
 * `/health/live` and `/health/ready` at the address of the API; the metrics listener serves them, too
 * (metrics/metrics-server.ts).
 */
import { Type } from 'typebox';
import type { Health } from '#core/lifecycle.ts';
import { jsonAnswer } from './answers.ts';
import type { Endpoint } from './relation.ts';
import type { RawHandler } from './route.ts';

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
