/** The API operation that loads versions of resources, and the Documents of its results. */
import { closedObject } from '#http/inputs.ts';
import { Type, Unknown } from 'typebox';
import { zoneOf } from '#catalog/resource-operations.ts';
import { storeOfAddress } from '#core/principal.ts';
import { invalid, notFound, type Fault } from '#core/problem.ts';
import { onlyValue } from '#hypermedia/paging.ts';
import { JsonLine } from '#http/bodies/json-body.ts';
import { accepting, type InputDescription, type Operation } from '#http/operation.ts';
import { code, json, number, text, type Document } from '#hypermedia/document.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { describeVersion, type EventLimits } from '../publish/publish-request.ts';
import { loadableTypes, loadItems, type LoadItem, type LoadResult } from './load.ts';

/** The result of an item without errors takes 150 bytes. */
const ITEMS_MAX = 10_000;

const DRY_RUN = 'dry_run';

/** Returns the items of a body: lines of JSON, an array or one item. Throws a 400 if they are too many or none. */
function itemsOf(body: unknown): LoadItem[] {
  const list: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (list.length === 0 || list.length > ITEMS_MAX) {
    const reason = list.length === 0 ? 'required' : 'too_many';
    throw invalid({ code: reason, message: `Send 1 to ${ITEMS_MAX} items at once`, field: 'body' });
  }
  return list.map((value, index) =>
    value instanceof JsonLine
      ? { line: value.number, size: value.length, read: () => value.parse() }
      : { line: index + 1, size: 0, read: () => value },
  );
}

const describeInput = (limits: EventLimits): InputDescription => ({
  itemsMax: ITEMS_MAX,
  areIndependent: true,
  item: closedObject({
    type: Type.Unsafe<string>({ enum: loadableTypes(), description: 'The type of the resource.' }),
    resource: describeVersion(limits),
  }),
});

/** Returns the Document of a result. It links to nothing, because links would be most of a response of 10,000 results. */
const resultDocument = ({ line, result, resource, version, errors, warnings }: LoadResult): Document => ({
  name: 'load_result',
  links: [],
  embedded: [],
  properties: [
    number('line', line),
    code('result', result),
    text.orNull('resource_type', resource?.type ?? null),
    text.orNull('resource_id', resource?.id ?? null),
    number.orNull('resource_version', version),
    json('errors', errors),
    json('warnings', warnings),
  ],
});

const countOf = (results: readonly LoadResult[], which: LoadResult['result']): number =>
  results.filter(({ result }) => result === which).length;

/** Returns the Document of the results of a load, in the order of its items. */
export function loadDocument(results: readonly LoadResult[], storeId: number, baseUrl: string): Document {
  return {
    name: 'load',
    links: [
      { rel: 'self', href: `${baseUrl}/stores/${storeId}/load`, title: 'Load history' },
      { rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'The store', crumb: 'Store' },
    ],
    embedded: [{ rel: 'load_results', documents: results.map(resultDocument) }],
    properties: [
      number('loaded', countOf(results, 'loaded')),
      number('kept', countOf(results, 'kept')),
      number('refused', countOf(results, 'refused')),
    ],
  };
}

function isDryRun(query: URLSearchParams): boolean {
  const faults: Fault[] = [];
  const value = onlyValue(query, DRY_RUN, faults);
  if (faults.length === 0 && value !== undefined && value !== '1')
    faults.push({ code: 'invalid_value', message: `${DRY_RUN} must be 1, or absent`, field: DRY_RUN });
  if (faults.length > 0) throw invalid(...faults);
  return value === '1';
}

export function createLoad({ sql, config }: Pick<Runtime, 'sql' | 'config'>): Operation {
  const { baseUrl, events: limits } = config;
  return accepting({
    title: 'Load history',
    summary: `Stores up to ${ITEMS_MAX} versions of resources that the platform had before, without events and deliveries; never replaces a newer version; needs the scope platform`,
    access: 'platform',
    input: Unknown(),
    inputDescription: describeInput(limits),
    modifiers: [DRY_RUN],
    bodyLimitBytes: config.http.eventsBodyLimitBytes,
    handle: async (request) => {
      const { storeId } = storeOfAddress(request);
      const items = itemsOf(request.body);
      const timeZone = await zoneOf(sql, request);
      if (timeZone === undefined) throw notFound('store');
      const load = { storeId, items, timeZone, now: request.now, isDryRun: isDryRun(request.query) };
      const results = await loadItems({ sql, baseUrl, limits }, load);
      return { status: 200, document: loadDocument(results, storeId, baseUrl) };
    },
  });
}
