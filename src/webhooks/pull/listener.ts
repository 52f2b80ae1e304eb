/** Who may listen to a held webhook: what it is sent goes to one listener, and is gone for all others then. */
import type { ApiRequest } from '#http/operation.ts';
import { notFound, Problem } from '#core/problem.ts';
import { isMaker, webhookOf, type WebhookDeps } from '../access.ts';
import type { WebhookRow } from '../webhook-sql.ts';

const NOT_HELD =
  'The webhook has a url, or could have one: only what is made with is_held "1" is fetched. Make such a webhook.';

/** For the app that made it, and the same person: throws a 404 for all others, and a 409 where nothing is held. */
export const heldWebhookOf = async (
  { sql }: Pick<WebhookDeps, 'sql'>,
  request: Pick<ApiRequest, 'params' | 'principal'>,
): Promise<WebhookRow> => {
  const webhook = await webhookOf(sql, request);
  // One that a person made is no app's: what it is sent is signed with a key that no app is shown.
  if (!isMaker(request.principal, webhook)) throw notFound('webhook');
  if (!webhook.isHeld) throw new Problem(409, { code: 'not_held', message: NOT_HELD });
  return webhook;
};
