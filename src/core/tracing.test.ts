import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { childContext, readTraceContext, traceHeaders, traceIdOf } from './tracing.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${SPAN}-01`;

for (const [traceparent, read] of [
  [PARENT, PARENT],
  [`00-${TRACE}-${SPAN}-00`, `00-${TRACE}-${SPAN}-00`],
  // Flags that level 1 does not know.
  [`00-${TRACE}-${SPAN}-fe`, `00-${TRACE}-${SPAN}-00`],
  [`00-${TRACE}-${SPAN}-03`, PARENT],
  // Later versions.
  [`cc-${TRACE}-${SPAN}-01`, PARENT],
  [`cc-${TRACE}-${SPAN}-01-what-the-future-brings`, PARENT],
  [`cc-${TRACE}-${SPAN}-01.what`, null],
  [`ff-${TRACE}-${SPAN}-01`, null],
  [`00-${TRACE}-${SPAN}-01-`, null],
  [`00-${'0'.repeat(32)}-${SPAN}-01`, null],
  [`00-${TRACE}-${'0'.repeat(16)}-01`, null],
  [PARENT.toUpperCase(), null],
  [` ${PARENT}`, null],
  [PARENT.slice(0, -1), null],
  [`${PARENT}, ${PARENT}`, null],
  ['', null],
  [undefined, null],
  [[PARENT], null],
] as const)
  test(`traceparent ${JSON.stringify(traceparent)} is ${read === null ? 'ignored' : `read as ${read}`}`, () => {
    assert.equal(readTraceContext({ traceparent }), read);
    assert.equal(readTraceContext({ traceparent, tracestate: 'a=1' }), read === null ? null : `${read} a=1`);
  });

test('a tracestate is kept as it came, up to 512 printable characters', () => {
  const kept = (tracestate: string) => traceHeaders(readTraceContext({ traceparent: PARENT, tracestate }) ?? '');
  for (const state of ['a=1', 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE', 'a=b c , d=e', 'x'.repeat(512)])
    assert.deepEqual(kept(state), ['traceparent', PARENT, 'tracestate', state]);
  for (const state of ['', 'x'.repeat(513), 'a=é', 'a=\t1']) assert.deepEqual(kept(state), ['traceparent', PARENT]);
});

test('any headers give no context, or one that is valid and reads as itself', () => {
  const parent = fc.oneof(
    fc.string(),
    fc.stringMatching(/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/),
  );
  fc.assert(
    fc.property(parent, fc.string({ maxLength: 600 }), fc.string(), (traceparent, tracestate, seed) => {
      const context = readTraceContext({ traceparent, tracestate });
      if (context === null) return;
      for (const one of [context, childContext(context, seed)]) {
        const [, sent, , state] = traceHeaders(one);
        assert.equal(readTraceContext({ traceparent: sent, tracestate: state }), one);
        assert.equal(traceIdOf(one), traceparent.slice(3, 35));
      }
    }),
  );
});

test('a span id depends on the context and the seed, and keeps all else', () => {
  const context = `${PARENT} a=1`;
  assert.equal(childContext(context, 'x'), childContext(context, 'x'));
  const spans = [childContext(context, 'x'), childContext(context, 'y'), childContext(`${PARENT} a=2`, 'x'), context];
  assert.equal(new Set(spans.map((one) => one.slice(36, 52))).size, 4);
  assert.match(childContext(context, 'x'), new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01 a=1$`));
  assert.equal(traceIdOf(null), undefined);
});
