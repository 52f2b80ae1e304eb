/** The actions of clients and people, each with its expected result. After each of them every token is tried. */
import assert from 'node:assert/strict';
import type { AsyncCommand } from 'fast-check';
import {
  ACCESS_MS,
  CODE_MS,
  expectedStatus,
  isMember,
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
      const expected = expectedStatus(model, token, store);
      assert.equal(await real.read(store, token.value), expected, `${store} at ${model.now}`);
      if (expected !== 401 && token.predecessor !== null) token.predecessor.successorUsed = true;
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

/** Adds the tokens of a response. Of a lost one only the access token is kept, so that a thief may find it. */
function addTokens(
  model: Model,
  grant: Grant,
  { body }: Answer,
  { predecessor, isLost }: { predecessor: RefreshToken | null; isLost: boolean },
): void {
  const expires = model.now + ACCESS_MS;
  const access = { value: String(body['access_token']), grant, expires, ended: false, predecessor };
  (isLost ? model.lost : model.access).push(access);
  const value = String(body['refresh_token']);
  if (!isLost && !model.refresh.some((known) => known.value === value))
    model.refresh.push({ value, grant, successor: null, successorUsed: false, predecessor });
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
      addTokens(model, grant, answer, { predecessor: null, isLost: false });
    },
  );
}

function assertSuccessor(model: Model, token: RefreshToken, returned: string): void {
  if (!rotates(token.grant.client)) {
    model.seen.push('refreshed');
    assert.equal(returned, token.value);
  } else if (token.successor === null) {
    model.seen.push('rotated');
    assert.notEqual(returned, token.value);
    token.successor = returned;
  } else {
    model.seen.push('rotation retried');
    assert.equal(returned, token.successor, 'a retry gets the same successor');
  }
}

export function refresh(back: number, by: ClientName | 'its own', isLost = false): Command {
  return command(
    `${by} refreshes with token ${back} from the end${isLost ? ' and loses the response' : ''}`,
    ({ refresh: tokens }) => tokens.length > 0,
    async (model, real) => {
      const token = pick(model.refresh.toReversed(), back);
      const { grant } = token;
      const client = by === 'its own' ? grant.client : by;
      const isReuse = token.successorUsed;
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
      if (token.predecessor !== null) token.predecessor.successorUsed = true;
      addTokens(model, grant, answer, { predecessor: rotates(grant.client) ? token : null, isLost });
    },
  );
}

export function find(back: number): Command {
  return command(
    `a thief finds the access token of lost response ${back} from the end`,
    ({ lost }) => lost.length > 0,
    async (model) => {
      const token = pick(model.lost.toReversed(), back);
      model.lost.splice(model.lost.indexOf(token), 1);
      model.access.push(token);
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
