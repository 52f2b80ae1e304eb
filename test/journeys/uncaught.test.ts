/** An error that nobody catches ends the server in its order: it is told, PostgreSQL is stopped, and the next start works. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMPILED } from '../setup/compiled.ts';
import { placeForHouse, startHouse } from '../setup/house.ts';

/** What no part of Halcyon does: it throws, or rejects, where nobody listens. */
const breaking = (statement: string) => `--import data:text/javascript,process.on('SIGUSR2',()=>{${statement}})`;
const WAYS = [
  ['an exception', breaking("setImmediate(()=>{throw/**/Error('out-of-nowhere')})")],
  ['a rejection', breaking("Promise.reject(Error('out-of-nowhere'))")],
] as const;

for (const [what, option] of WAYS) {
  test(`${what} that nobody catches is told, and everything is stopped in its order`, async (t) => {
    const place = await placeForHouse({
      NODE_OPTIONS: [COMPILED['NODE_OPTIONS'] ?? '', option].join(' '),
      LOG_LEVEL: 'info',
    });
    t.after(() => place.remove());
    const house = await startHouse(place);
    assert.equal(await house.end('SIGUSR2'), 1);
    const said = house.output();
    assert.match(said, /"level":60.*out-of-nowhere/);
    assert.match(said, /"msg":"stopped delivering"/);
    const next = await startHouse({ ...place, env: { ...place.env, NODE_OPTIONS: '' } });
    assert.equal(next.demo.store_id, house.demo.store_id);
    assert.equal(await next.end('SIGTERM'), 0);
  });
}
