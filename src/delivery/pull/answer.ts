/**
 * Records a listener's answer: the only attempt and the end of a pull delivery. It does not change the health of the
 * webhook.
 */
import type { Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import type { OutcomeLabel } from '#core/outcome.ts';
import { textOf } from '../attempt/http/response.ts';
import { findAnswer, writeAnswer, type AnsweredRow, type AnswerRow, type PullWebhook } from './pull-sql.ts';

/**
 * If `code` is null there was no response: `outcome` says why, or is null if the delivery was only displayed, which
 * counts as delivered.
 */
export type ListenerReply = {
  code: number | null;
  outcome: OutcomeLabel | null;
  durationMs: number;
  headers: string | null;
  body: string | null;
};

export type AnswerResult =
  | { kind: 'answered'; attempt: AnsweredRow }
  /** `answered_otherwise`: a different answer was recorded before. `ended`: it ended without an answer. */
  | { kind: 'answered_otherwise' | 'ended' }
  | { kind: 'unknown' };

function outcomeOf({ code, outcome }: ListenerReply): OutcomeLabel {
  if (code === null) return outcome ?? 'delivered';
  if (code >= 200 && code < 300) return 'delivered';
  return code === 410 ? 'gone' : 'refused';
}

function rowOf(reply: ListenerReply, keptBytes: number, now: Date): AnswerRow {
  const outcome = outcomeOf(reply);
  return {
    state: outcome === 'delivered' ? 'successful' : 'failed',
    startedAt: new Date(now.getTime() - reply.durationMs),
    durationMs: reply.durationMs,
    outcome,
    responseCode: reply.code,
    responseHeaders: reply.headers === null ? null : textOf(reply.headers, keptBytes),
    responseBody: reply.body === null ? null : textOf(reply.body, keptBytes),
  };
}

const isSame = (row: AnswerRow, stored: AnsweredRow): boolean =>
  (['durationMs', 'outcome', 'responseCode', 'responseHeaders', 'responseBody'] as const).every(
    (name) => row[name] === stored[name],
  );

/** Records an answer. The same answer again changes nothing and returns the same result. */
export async function answer(
  { sql, log, answerKeptBytes }: { sql: Sql; log: Log; answerKeptBytes: number },
  delivery: PullWebhook & { id: number },
  reply: ListenerReply,
  now: Date,
): Promise<AnswerResult> {
  const row = rowOf(reply, answerKeptBytes, now);
  const isNew = await writeAnswer(sql, delivery, row, now);
  const stored = await findAnswer(sql, delivery);
  if (stored === undefined) return { kind: 'unknown' };
  if (stored === 'ended') return { kind: 'ended' };
  if (!isSame(row, stored)) return { kind: 'answered_otherwise' };
  const { id, webhookId } = delivery;
  if (isNew)
    log.info(
      { delivery: id, webhook: webhookId, outcome: row.outcome, exchangeMs: row.durationMs },
      'pull delivery answered',
    );
  return { kind: 'answered', attempt: stored };
}
