/** Events over the API: publish (the platform alone), read one, read what it carried. */
import { resourceDocument } from '#commerce/document.ts';
import { readShape } from '#commerce/shape.ts';
import type { Sql } from '#database/pool.ts';
import { accepting, guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { Unknown } from 'typebox';
import { parseId, shardOf } from '#kernel/ids.ts';
import { notFound } from '#kernel/problem.ts';
import { reachesStore } from '#kernel/principal.ts';
import { addressOfEvent, eventDocument } from './document.ts';
import type { Publisher } from './publish.ts';
import { findEvent, type StoredEvent } from './queries.ts';
import { readPublish, type EventLimits } from './request.ts';

type Deps = {
  sql: Sql;
  publish: Publisher;
  baseUrl: string;
  relationPrefix: string;
  limits: EventLimits;
  bodyLimitBytes: number;
};

const storeIdOf = ({ params, principal }: ApiRequest): number => {
  const id = parseId(params['store_id'] ?? '');
  if (id === undefined || !reachesStore(principal, id)) throw notFound('store');
  return id;
};

const eventOf = async (sql: Sql, request: ApiRequest, storeId: number): Promise<StoredEvent> => {
  const id = parseId(request.params['event_id'] ?? '');
  const event = id === undefined ? undefined : await findEvent(sql, { shard: shardOf(storeId), storeId, id });
  if (event === undefined) throw notFound('event');
  return event;
};

export const createEventOperations = ({
  sql,
  publish,
  baseUrl,
  relationPrefix,
  limits,
  bodyLimitBytes,
}: Deps): { publish: Operation; read: Operation; payload: Operation } => ({
  publish: accepting({
    summary: 'Publishes one event, or an array of them in one transaction; needs the scope platform',
    access: 'platform',
    input: Unknown(),
    bodyLimitBytes,
    handle: async (request) => {
      const { events, isArray } = readPublish(request.body, limits);
      const storeId = storeIdOf(request);
      const published = await publish({ storeId, events, now: request.now });
      const documents = published.map((event) => eventDocument(event, storeId, baseUrl));
      const [document] = documents;
      const [event] = published;
      if (!isArray && document !== undefined && event !== undefined) {
        return { status: 201, document, location: addressOfEvent(event, baseUrl, storeId) };
      }
      const self = { rel: 'self', href: `${baseUrl}/stores/${storeId}/events`, title: 'The events of this store' };
      const embedded = [{ rel: 'events', documents }];
      return { status: 200, document: { name: 'events', links: [self], embedded, properties: [] } };
    },
  }),
  read: guarded({
    summary: 'One event',
    handle: async (request) => {
      const storeId = storeIdOf(request);
      const event = await eventOf(sql, request, storeId);
      return { status: 200, document: eventDocument(event, storeId, event.baseUrl) };
    },
  }),
  payload: guarded({
    summary: 'What the event carried, as it was then; zoom and fields shape it',
    handle: async (request) => {
      const storeId = storeIdOf(request);
      const { type, resourceId, baseUrl: frozenUrl, body } = await eventOf(sql, request, storeId);
      const frozen = { storeId, type, id: resourceId, baseUrl: frozenUrl, body };
      const document = resourceDocument(frozen, readShape(request.query.toString(), type));
      return { status: 200, document, naming: { baseUrl: frozenUrl, relationPrefix } };
    },
  }),
});
