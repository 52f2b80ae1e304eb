/** The actions of clients and people, each with its expected result. After each of them every token is tried. */
import assert from 'node:assert/strict';
import type { AsyncCommand } from 'fast-check';
import {
  ACCESS_MS,
  CODE_MS,
  expectedStatus,
  isMember,
  RETRY_MS,
  rotates,
  stands,
  STORES,
  type ClientName,
  type Grant,
  type Model,
  type RefreshToken,
  type StoreName,
  type UserName,
} from './model.ts';

type Answer = { status: number; body: Record<string, unknown> };

/** The running server, as the commands need it. */
export type Real = {
  approve: (user: UserName, client: ClientName, store: StoreName | null) => Promise<string>;
  deny: (user: UserName, client: ClientName) => Promise<string | null>;
  redeem: (client: ClientName, code: string) => Promise<Answer>;
  refresh: (client: ClientName, token: string) => Promise<Answer>;
  revoke: (client: ClientName, token: string) => Promise<number>;
  read: (store: StoreName, token: string) => Promise<number>;
  setMember: (user: UserName, store: StoreName, isMember: boolean) => Promise<void>;
  setDisabled: (user: UserName, isDisabled: boolean) => Promise<void>;
  wait: (ms: number) => void;
};

type Command = AsyncCommand<Model, Real>;

async function assertAccess(model: Model, real: Real): Promise<void> {
  for (const token of model.access) {
    for (const store of STORES) {
      assert.equal(
        await real.read(store, token.value),
        expectedStatus(model, token, store),
        `${store} at ${model.now}`,
      );
    }
  }
}

/** A command whose effect on the server and on the model is `run`; afterwards all access matches the model. */
const command = (
  name: string,
  may: (model: Readonly<Model>) => boolean,
  run: (model: Model, real: Real) => Promise<void>,
): Command => ({
  check: may,
  run: async (model, real) => {
    await run(model, real);
    await assertAccess(model, real);
  },
  toString: () => name,
});

function pick<T>(all: readonly T[], index: number): T {
  const one = all[index % all.length];
  if (one === undefined) throw new RangeError('Nothing to pick from');
  return one;
}

function addTokens(model: Model, grant: Grant, { body }: Answer): void {
  model.access.push({ value: String(body['access_token']), grant, expires: model.now + ACCESS_MS, ended: false });
  const value = String(body['refresh_token']);
  if (!model.refresh.some((known) => known.value === value))
    model.refresh.push({ value, grant, rotatedAt: null, successor: null });
}

const assertRefused = ({ status, body }: Answer): void =>
  assert.deepEqual([status, body['error']], [400, 'invalid_grant']);

export function approve(user: UserName, client: ClientName, store: StoreName | null): Command {
  return command(
    `${user} lets ${client} into ${store ?? 'the account'}`,
    (model) => !model.disabled.has(user) && (store === null || isMember(model, user, store)),
    async (model, real) => {
      const value = await real.approve(user, client, store);
      const grant: Grant = { client, user, store, revoked: false };
      model.codes.push({ value, grant, expires: model.now + CODE_MS, used: false });
    },
  );
}

export function deny(user: UserName, client: ClientName): Command {
  return command(
    `${user} denies ${client}`,
    (model) => !model.disabled.has(user),
    async (_model, real) => assert.equal(await real.deny(user, client), 'access_denied'),
  );
}

/** The newest are the likely ones: `back` counts from the end. */
export function redeem(back: number, by: ClientName | 'its own'): Command {
  return command(
    `${by} redeems code ${back} from the end`,
    ({ codes }) => codes.length > 0,
    async (model, real) => {
      const code = pick(model.codes.toReversed(), back);
      const { grant } = code;
      const client = by === 'its own' ? grant.client : by;
      const answer = await real.redeem(client, code.value);
      if (client !== grant.client) return assertRefused(answer);
      if (code.used) {
        model.seen.push('code reused');
        grant.revoked = true;
        return assertRefused(answer);
      }
      if (grant.revoked || model.disabled.has(grant.user) || model.now >= code.expires) return assertRefused(answer);
      assert.equal(answer.status, 200);
      code.used = true;
      model.seen.push('code redeemed');
      addTokens(model, grant, answer);
    },
  );
}

function assertSuccessor(model: Model, token: RefreshToken, returned: string): void {
  if (!rotates(token.grant.client)) {
    model.seen.push('refreshed');
    assert.equal(returned, token.value);
  } else if (token.rotatedAt === null) {
    model.seen.push('rotated');
    assert.notEqual(returned, token.value);
    token.rotatedAt = model.now;
    token.successor = returned;
  } else {
    model.seen.push('rotation retried');
    assert.equal(returned, token.successor, 'a retry gets the same successor');
  }
}

export function refresh(back: number, by: ClientName | 'its own'): Command {
  return command(
    `${by} refreshes with token ${back} from the end`,
    ({ refresh: tokens }) => tokens.length > 0,
    async (model, real) => {
      const token = pick(model.refresh.toReversed(), back);
      const { grant } = token;
      const client = by === 'its own' ? grant.client : by;
      const isReuse = token.rotatedAt !== null && model.now - token.rotatedAt > RETRY_MS;
      const stood = stands(model, grant);
      const answer = await real.refresh(client, token.value);
      if (client !== grant.client) return assertRefused(answer);
      if (isReuse) {
        model.seen.push('rotated token reused');
        grant.revoked = true;
      }
      if (isReuse || !stood) return assertRefused(answer);
      assert.equal(answer.status, 200);
      assertSuccessor(model, token, String(answer.body['refresh_token']));
      addTokens(model, grant, answer);
    },
  );
}

export function revoke(kind: 'access' | 'refresh', back: number, by: ClientName | 'its own'): Command {
  return command(
    `${by} revokes ${kind} token ${back} from the end`,
    (model) => model[kind].length > 0,
    async (model, real) => {
      const access = kind === 'access' ? pick(model.access.toReversed(), back) : undefined;
      const token = access ?? pick(model.refresh.toReversed(), back);
      const client = by === 'its own' ? token.grant.client : by;
      assert.equal(await real.revoke(client, token.value), 200);
      if (client !== token.grant.client) return;
      if (access === undefined) token.grant.revoked = true;
      else access.ended = true;
    },
  );
}

export function wait(ms: number): Command {
  return command(
    `${ms} ms pass`,
    () => true,
    async (model, real) => {
      real.wait(ms);
      model.now += ms;
    },
  );
}

export function setMember(user: UserName, store: StoreName, joins: boolean): Command {
  return command(
    `${user} ${joins ? 'joins' : 'leaves'} ${store}`,
    (model) => isMember(model, user, store) !== joins,
    async (model, real) => {
      await real.setMember(user, store, joins);
      if (joins) model.members.add(`${user} ${store}`);
      else model.members.delete(`${user} ${store}`);
    },
  );
}

export function setDisabled(user: UserName, isDisabled: boolean): Command {
  return command(
    `${user} is ${isDisabled ? 'disabled' : 'enabled'}`,
    (model) => model.disabled.has(user) !== isDisabled,
    async (model, real) => {
      await real.setDisabled(user, isDisabled);
      if (isDisabled) model.disabled.add(user);
      else model.disabled.delete(user);
    },
  );
}
