/** An uncaught error stops the server gracefully: it is logged, PostgreSQL is stopped, and the next start works. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMPILED } from '../setup/child-environment.ts';
import { placeForFixture, startFixture } from '../setup/fixture.ts';

/** Options of Node that load a handler of SIGUSR2, because no request is known that fails like this. */
const failing = (statement: string): string =>
  [COMPILED['NODE_OPTIONS'] ?? '', `--import data:text/javascript,process.on('SIGUSR2',()=>{${statement}})`].join(' ');
const FAILURES = [
  failing("setImmediate(()=>{throw/**/Error('out-of-nowhere')})"),
  failing("Promise.reject(Error('out-of-nowhere'))"),
];

test('an uncaught exception or rejection is logged and stops the server gracefully', async (t) => {
  const place = await placeForFixture({ LOG_LEVEL: 'info' });
  t.after(() => place.remove());
  const stores = new Set<number>();
  for (const NODE_OPTIONS of FAILURES) {
    const fixture = await startFixture({ ...place, env: { ...place.env, NODE_OPTIONS } });
    stores.add(fixture.demo.store_id);
    assert.equal(await fixture.end('SIGUSR2'), 1);
    assert.match(fixture.output(), /"level":60.*out-of-nowhere/);
    assert.match(fixture.output(), /"msg":"stopped delivering"/);
  }
  // The second start has the data of the first one.
  assert.equal(stores.size, 1);
});
