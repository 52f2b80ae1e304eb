/** Any JSON to any operation with a body is accepted, or rejected in the common error format. Walks the table of routes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Type, type TSchema } from 'typebox';
import { amountOf } from '../setup/amount.ts';
import { startFurnishedApp } from '../setup/app-with-resources.ts';
import { respond } from '../setup/send.ts';
import { faultsOf, wrongInError } from './error-shape.ts';
import { bodiesFor } from './json-texts.ts';
import { fillIn, operationTable } from './route-table.ts';

const RUNS = amountOf('any-json', { all: 60, part: 15 });

const app = await startFurnishedApp();
const takers = operationTable(app.baseUrl).flatMap(({ operation, ...at }) =>
  operation.input === undefined ? [] : [{ ...at, input: operation.input }],
);

/** An operation that validates its body itself takes events. */
const EVENT = Type.Object({ event: Type.String(), resource: Type.Object({}) });
const schemaOf = (input: TSchema): TSchema => ('properties' in input ? input : EVENT);

/** A body that no operation accepts. */
const NO_BODY = 'true';

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

const ask = (method: string, address: string, token: string, body?: string): Promise<Response> =>
  respond(address, {
    method,
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body }),
  });

/** Deletes the resource that one body created, so that no limit is reached and the next body is processed as far. */
async function assertMade(response: Response, token: string): Promise<void> {
  const location = response.headers.get('location') ?? '';
  assert.equal((await ask('GET', location, token)).status, 200, `${location} was created`);
  const removed = await ask('DELETE', location, token);
  assert.ok([202, 204, 403, 404, 405].includes(removed.status), `${removed.status} to DELETE ${location}`);
}

function assertRefused(status: number, answer: string, body: string): void {
  assert.ok(status >= 400 && status < 500, `${status}: ${answer}`);
  assert.equal(wrongInError(status, answer), undefined, answer);
  if (status !== 400 || !isObject(body)) return;
  const nameless = faultsOf(answer).find(({ code, field }) => code !== 'malformed_body' && field === undefined);
  assert.equal(nameless, undefined, 'an error about a member that is not named');
}

test('there are operations that take a body', () => assert.ok(takers.length >= 6, String(takers.length)));

for (const { method, path, input } of takers) {
  test(`any JSON is accepted or rejected in the common error format: ${method} ${path}`, async () => {
    const address = app.baseUrl + fillIn({ path }, app.named);
    const callers = fc.oneof(
      { weight: 1, arbitrary: fc.constant(app.token) },
      { weight: 3, arbitrary: fc.constant(app.platformToken) },
    );
    const statuses = new Set<number>();
    await fc.assert(
      fc.asyncProperty(bodiesFor(schemaOf(input)), callers, async (body, token) => {
        const response = await ask(method, address, token, body);
        statuses.add(response.status);
        if (response.status === 201) await assertMade(response, token);
        const answer = await response.text();
        if (!response.ok) assertRefused(response.status, answer, body);
        // A load has a result for each item, and is no error.
        else if (/"refused":[1-9]/.test(answer)) statuses.add(400);
      }),
      { numRuns: RUNS, examples: [app.token, app.platformToken].map((token) => [NO_BODY, token]) },
    );
    // If every request were rejected before its body, no body would have been validated.
    assert.ok(statuses.has(400), `only ${[...statuses].join(', ')}`);
  });
}
