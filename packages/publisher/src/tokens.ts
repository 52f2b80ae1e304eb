import type { Fault, PublishErrorCode } from './error.ts';
import { exchange, objectIn, type Answer, type Connection } from './exchange.ts';

export type Credentials = { clientId: string; clientSecret: string };

/** A token, or the temporary or permanent failure to get one. */
type Access =
  | { kind: 'token'; token: string }
  | { kind: 'refused'; code: PublishErrorCode; status: number; message: string; faults: readonly Fault[] }
  | Extract<Answer, { kind: 'temporary' }>;

export type Tokens = {
  /** Returns the token; requests a new one before the old one expires. */
  current: () => Promise<Access>;
  /** Removes a token that the server does not accept. */
  forget: (token: string) => void;
};

/** A token is renewed when a tenth of its lifetime is left. */
const RENEWED_AFTER = 0.9;

/** Gets tokens with the scope `platform` by client credentials (RFC 6749 §4.4); concurrent callers share one request. */
export function createTokens(connection: Connection, { clientId, clientSecret }: Credentials): Tokens {
  const { clock } = connection;
  let current: { token: string; renewMs: number } | undefined;
  let pending: Promise<Access> | undefined;
  const request = async (): Promise<Access> => {
    const form = { grant_type: 'client_credentials', scope: 'platform' };
    const body = new URLSearchParams({ ...form, client_id: clientId, client_secret: clientSecret });
    const requestedMs = clock.nowMs();
    const answer = await exchange(connection, '/token', { headers: {}, body });
    if (answer.kind === 'temporary') return { ...answer, problem: `no token: ${answer.problem}`, isUnknown: false };
    const { status } = answer;
    const { access_token: token, expires_in: seconds, error, error_description: description } = objectIn(answer.text);
    if (status !== 200 || typeof token !== 'string') {
      const reasons = [error, description].filter((one) => typeof one === 'string');
      const code = status === 400 || status === 401 || status === 403 ? 'unauthorized' : 'unexpected';
      const advice = 'check baseUrl, clientId and clientSecret, and that the client is trusted';
      const message = `No token for the client ${clientId}: ${status} ${reasons.join(': ')}; ${advice}`;
      const [first] = reasons;
      const faults = first === undefined ? [] : [{ code: first, message: reasons.at(-1) ?? first }];
      return { kind: 'refused', code, status, message, faults };
    }
    const lifeMs = typeof seconds === 'number' ? seconds * 1000 : Infinity;
    current = { token, renewMs: requestedMs + lifeMs * RENEWED_AFTER };
    return { kind: 'token', token };
  };
  return {
    current: async () => {
      if (current !== undefined && clock.nowMs() < current.renewMs) return { kind: 'token', token: current.token };
      pending ??= request().finally(() => (pending = undefined));
      return pending;
    },
    forget: (token) => {
      if (current?.token === token) current = undefined;
    },
  };
}
