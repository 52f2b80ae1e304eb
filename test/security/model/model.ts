/** The expected state of the authorization server as plain values: the grants and their tokens. */
export const CLIENTS = ['stable', 'rotating', 'public'] as const;
export type ClientName = (typeof CLIENTS)[number];
export const USERS = ['ada', 'bob'] as const;
export type UserName = (typeof USERS)[number];
export const STORES = ['alpha', 'beta'] as const;
export type StoreName = (typeof STORES)[number];

export type Grant = {
  client: ClientName;
  user: UserName;
  /** Null: the account and all its stores. */ store: StoreName | null;
  revoked: boolean;
};
export type Code = { value: string; grant: Grant; expires: number; used: boolean };
/** `predecessor`: the rotated token for which it was issued. */
export type AccessToken = {
  value: string;
  grant: Grant;
  expires: number;
  ended: boolean;
  predecessor: RefreshToken | null;
};
export type RefreshToken = {
  value: string;
  grant: Grant;
  successor: string | null;
  successorUsed: boolean;
  predecessor: RefreshToken | null;
};

export type Model = {
  /** Milliseconds since the run began. */
  now: number;
  codes: Code[];
  access: AccessToken[];
  /** Access tokens in responses that their clients did not receive. */
  lost: AccessToken[];
  refresh: RefreshToken[];
  members: Set<`${UserName} ${StoreName}`>;
  disabled: Set<UserName>;
  /** Counts of what happened, so that a run can prove that it covered its subject. */
  seen: string[];
};

export const CODE_MS = 30_000;
export const ACCESS_MS = 7_200_000;

export function newModel(): Model {
  return {
    now: 0,
    codes: [],
    access: [],
    lost: [],
    refresh: [],
    members: new Set(['ada alpha', 'ada beta', 'bob beta']),
    disabled: new Set(),
    seen: [],
  };
}

export function isMember({ members }: Model, user: UserName, store: StoreName): boolean {
  return members.has(`${user} ${store}`);
}

/** Returns whether the tokens of the grant may work at this moment. */
export function stands(model: Model, { revoked, user, store }: Grant): boolean {
  return !revoked && !model.disabled.has(user) && (store === null || isMember(model, user, store));
}

/** The status with which a store must answer an access token. */
export function expectedStatus(model: Model, token: AccessToken, store: StoreName): 200 | 401 | 404 {
  if (token.ended || model.now >= token.expires || !stands(model, token.grant)) return 401;
  const { grant } = token;
  const reached = grant.store === null ? isMember(model, grant.user, store) : grant.store === store;
  return reached ? 200 : 404;
}

export function rotates(client: ClientName): boolean {
  return client !== 'stable';
}
