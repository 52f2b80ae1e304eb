/** One delivery: what became of each attempt, why it has not arrived, and what was sent. */
import { isTest } from '#catalog/sample.ts';
import type { Queryable } from '#db/pool.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { text, type Document, type Link } from '#hypermedia/document.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import { seesKey, shownRequest, webhookOf, type WebhookDeps } from '../access.ts';
import { addressOfWebhook, linksAbove } from '../document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import { addressOfDelivery, attemptDocument, deliveryDocument } from './document.ts';
import { listDeliveries, type AttemptRow, type DeliveryRow, type Owner } from './history-sql.ts';
import { attemptsAt, storeChangedAt } from './delivery-sql.ts';
import { differenceOf, requestDocument, unsentAt, type Previewed } from './delivery-request.ts';
import { waitsFor } from './waiting.ts';

/** More than any delivery is tried. */
const ATTEMPTS_SHOWN_MAX = 50;

/** How often the page of a delivery that is pending asks again: soon where it is about to be sent, else rarely. */
const SOON_MS = 60_000;
const REFRESH_SOON_SECONDS = 3;
const REFRESH_SECONDS = 30;

type Asked = Pick<ApiRequest, 'params' | 'principal'>;

export const ownerOf = ({ id, storeId, epoch, heldUntil }: WebhookRow): Owner => ({
  shard: shardOf(id),
  storeId,
  id,
  epoch,
  heldUntil,
});

/** The delivery of a webhook with that id; undefined where there is none, or retention has dropped it. */
export const deliveryWith = async (
  sql: Queryable,
  webhook: WebhookRow,
  id: number,
): Promise<DeliveryRow | undefined> => {
  const filters = [{ property: 'id', operator: 'is', value: id } as const];
  const [row] = await listDeliveries(sql, ownerOf(webhook), { offset: 0, limit: 1, order: [], filters });
  return row;
};

/** The delivery of the address. Throws a 404 where the webhook has none such. */
export const deliveryOf = async (sql: Queryable, webhook: WebhookRow, { params }: Asked): Promise<DeliveryRow> => {
  const id = parseId(params['delivery_id'] ?? '');
  const row = id === undefined ? undefined : await deliveryWith(sql, webhook, id);
  if (row === undefined) throw notFound('delivery');
  return row;
};

/** Where there is nothing to send, and while it is being sent anyway, nobody is offered it. */
const isResendable = ({ status, type, action }: DeliveryRow, { kind }: Previewed): boolean =>
  status !== 'pending' && type !== null && !isTest(action) && kind !== 'gone';

const refreshSeconds = ({ status, dateNext }: DeliveryRow, now: Date): number | undefined => {
  if (status !== 'pending') return undefined;
  const waitsMs = (dateNext?.getTime() ?? 0) - now.getTime();
  return waitsMs < SOON_MS ? REFRESH_SOON_SECONDS : REFRESH_SECONDS;
};

const linksOf = (row: DeliveryRow, webhook: WebhookRow, previewed: Previewed, baseUrl: string): Link[] => {
  const statuses = `${addressOfWebhook(webhook.id, baseUrl)}/statuses`;
  const self = addressOfDelivery(row.id, webhook, baseUrl);
  return [
    ...linksAbove(webhook, baseUrl),
    { rel: 'statuses', href: statuses, title: 'All deliveries of the webhook', crumb: 'Deliveries' },
    ...(isResendable(row, previewed) ? [{ rel: 'resend', href: `${self}/resend`, title: 'Send it again' }] : []),
  ];
};

export type Whole = {
  row: DeliveryRow;
  webhook: WebhookRow;
  attempts: readonly AttemptRow[];
  request: Document;
  previewed: Previewed;
  baseUrl: string;
  now: Date;
};

/** With all that its page tells; as one of a list it has less. */
export const wholeDelivery = ({ row, webhook, attempts, request, previewed, baseUrl, now }: Whole): Document => {
  const document = deliveryDocument(row, webhook, baseUrl);
  const seconds = refreshSeconds(row, now);
  const waits = text('waits_for', waitsFor(row, webhook, now));
  return {
    ...document,
    ...(seconds !== undefined && { refreshSeconds: seconds }),
    links: [...document.links.filter(({ rel }) => rel !== 'webhook'), ...linksOf(row, webhook, previewed, baseUrl)],
    properties: document.properties.flatMap((property) =>
      property.name === 'date_next' ? [property, waits] : [property],
    ),
    embedded: [
      {
        rel: 'logs',
        documents: attempts.map((attempt) => attemptDocument(attempt, webhook, baseUrl)),
        isTimeline: true,
        title: 'Attempts',
      },
      { rel: 'request', documents: [request], single: true },
    ],
  };
};

/** The delivery with everything; reads what `sql` sees. */
const showDelivery = async (
  { sql, sealer, preview, baseUrl }: Pick<WebhookDeps, 'sql' | 'sealer' | 'preview' | 'baseUrl'>,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
  webhook: WebhookRow,
  row: DeliveryRow,
): Promise<Document> => {
  const owner = ownerOf(webhook);
  const [attempts, changedAt] = await Promise.all([
    attemptsAt(sql, owner, row.id, ATTEMPTS_SHOWN_MAX),
    storeChangedAt(sql, owner),
  ]);
  const last = attempts.at(-1) ?? null;
  const difference = differenceOf(last, row, { webhook, storeChangedAt: changedAt });
  const previewed = await preview({
    shard: owner.shard,
    webhookId: webhook.id,
    eventId: row.eventId,
    attempt: Math.max(1, last?.n ?? 0),
    now: difference === null && last !== null ? last.dateStarted : unsentAt(row, webhook, now),
    seesKey: seesKey(principal, webhook),
  });
  const shown = { ...webhook, ...shownRequest({ sealer }, webhook, principal) };
  const request = requestDocument({ delivery: row, webhook: shown, previewed, difference, baseUrl });
  return wholeDelivery({ row, webhook, attempts, request, previewed, baseUrl, now });
};

export const createReadDelivery = (deps: WebhookDeps): Operation =>
  guarded({
    title: 'This delivery',
    summary: 'What became of one delivery: every attempt, why it has not arrived, what it waits for and what is sent',
    handle: async (request) => {
      const webhook = await webhookOf(deps.sql, request);
      const row = await deliveryOf(deps.sql, webhook, request);
      return { status: 200, document: await showDelivery(deps, request, webhook, row) };
    },
  });
