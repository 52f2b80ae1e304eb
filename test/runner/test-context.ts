/**
 * Loads node:test so that it finds the running test by an AsyncLocalStorage. It has async hooks for that, with which Node calls
 * JavaScript for each promise and each socket: they took 10 % of the processor time of `npm test`.
 */
import asyncHooks, { AsyncLocalStorage, AsyncResource, type HookCallbacks } from 'node:async_hooks';

const { createHook, executionAsyncId } = asyncHooks;
const runningId = new AsyncLocalStorage<number>();
let callbacks: HookCallbacks | undefined;

/** The superclass of tests: `init` maps their ids to them. */
class TestResource extends AsyncResource {
  constructor(type: string) {
    super(type);
    callbacks?.init?.(this.asyncId(), type, 0, this);
  }

  override runInAsyncScope<This, Args extends unknown[], Result>(
    fn: (this: This, ...args: Args) => Result,
    thisArg?: This,
    ...args: Args
  ): Result {
    const run = () => runningId.run(this.asyncId(), () => Reflect.apply(fn, thisArg as This, args));
    return super.runInAsyncScope(run);
  }
}

Object.assign(asyncHooks, {
  AsyncResource: TestResource,
  executionAsyncId: () => runningId.getStore() ?? 0,
  createHook: (given: HookCallbacks) => {
    callbacks = given;
    return { enable: () => {}, disable: () => {} };
  },
});
export const { test } = await import('node:test');
// For the program and its dependencies.
Object.assign(asyncHooks, { AsyncResource, createHook, executionAsyncId });
