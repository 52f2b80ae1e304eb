/** Access check of listeners: a delivery of a pull webhook goes to one listener only. */
import type { ApiRequest } from '#http/operation.ts';
import { notFound, Problem } from '#core/problem.ts';
import { isCreator, webhookOf, type WebhookDeps } from '../webhook-access.ts';
import type { WebhookRow } from '../webhook-sql.ts';

const NOT_A_PULL_WEBHOOK = 'Not a pull webhook: create a webhook with is_held "1"';

type Deps = Pick<WebhookDeps, 'sql'>;
type Request = Pick<ApiRequest, 'params' | 'principal'>;

/** Returns the webhook in the path. Throws a 404 unless the caller is the app and user that created it. */
export async function createdWebhookOf({ sql }: Deps, request: Request): Promise<WebhookRow> {
  const webhook = await webhookOf(sql, request);
  // A webhook that a user created belongs to no app: its deliveries are signed with a key that apps may not see.
  if (!isCreator(request.principal, webhook)) throw notFound('webhook');
  return webhook;
}

/** Returns the pull webhook in the path. Throws a 404 like `createdWebhookOf`, and a 409 for other webhooks. */
export async function pullWebhookOf(deps: Deps, request: Request): Promise<WebhookRow> {
  const webhook = await createdWebhookOf(deps, request);
  if (!webhook.isHeld) throw new Problem(409, { code: 'not_held', message: NOT_A_PULL_WEBHOOK });
  return webhook;
}
