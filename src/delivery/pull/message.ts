/** Composes the message of a pull delivery: the request that an endpoint would have received. */
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import { loadEvents, loadTargets } from '../delivery-sql.ts';
import { bodyOf, Composer, type ComposerSettings } from '../attempt/request.ts';
import { activeTarget, type ActiveTarget } from '../attempt/target.ts';
import type { PullWebhook, Waiting } from './pull-sql.ts';

export type MessagesDeps = {
  sql: Sql;
  sealer: Sealer;
  /** Decides whether the body is encrypted, as the URL of a webhook does: the stream is served at this URL. */
  baseUrl: string;
  settings: ComposerSettings;
};

/** `body` is base64 of the exact bytes that are signed, encrypted or not. */
export type PullMessage = {
  delivery_id: number;
  event_id: number;
  attempt: 1;
  method: 'POST';
  headers: Readonly<Record<string, string>>;
  body: string;
  /** The URL to which the listener posts its answer. */
  answer: string;
};

function recordOf(headers: readonly string[]): Record<string, string> {
  const record: Record<string, string> = {};
  for (let at = 0; at < headers.length; at += 2) record[headers[at] ?? ''] = headers[at + 1] ?? '';
  return record;
}

export class Messages {
  readonly #deps: MessagesDeps;
  readonly #composer: Composer;

  constructor(deps: MessagesDeps) {
    this.#deps = deps;
    this.#composer = new Composer(deps.settings);
  }

  /** Returns the current settings; undefined if the webhook is deleted. Throws if its key cannot be decrypted. */
  async target({ shard, webhookId }: PullWebhook): Promise<ActiveTarget | undefined> {
    const { sql, sealer, baseUrl } = this.#deps;
    const [row] = await loadTargets(sql, [shard], [webhookId]);
    return row === undefined ? undefined : activeTarget(row, sealer, baseUrl);
  }

  /** Returns undefined if the event was erased or dropped, and `why` if the message cannot be composed. */
  async make(
    { shard, webhookId }: PullWebhook,
    { id, eventId }: Waiting,
    target: ActiveTarget,
    now: Date,
  ): Promise<PullMessage | { why: unknown } | undefined> {
    // Read from the table each time and not cached, so that nothing erased is sent from memory.
    const [event] = await loadEvents(this.#deps.sql, [shard], [eventId]);
    if (event === undefined) return undefined;
    try {
      const made = this.#composer.compose({ webhookId, target, attempt: 1, now }, bodyOf(event));
      return {
        delivery_id: id,
        event_id: eventId,
        attempt: 1,
        method: 'POST',
        headers: recordOf(made.headers),
        body: Buffer.from(made.body).toString('base64'),
        answer: `${this.#deps.baseUrl}/webhooks/${webhookId}/statuses/${id}/answer`,
      };
    } catch (why) {
      return { why };
    }
  }
}
