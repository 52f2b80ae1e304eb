/**
 * Operations of a resource: reads (`open`, `guarded`, and `listing` of listing.ts), changes (`accepting`, `guarded`)
 * and creations (`creating` of idempotency.ts). Each is a declaration that src/http executes and from which documentation
 * and forms are generated.
 */
import type { Readable } from 'node:stream';
import type { Static, TSchema } from 'typebox';
import type { Sql, Tx } from '#db/pool.ts';
import type { Advice, View } from '#hypermedia/view.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { refuseParameters } from '#hypermedia/paging.ts';
import type { Comparisons } from '#core/listing.ts';
import type { Permission, Principal, SufficientScopes } from '#core/principal.ts';
import type { Fault } from '#core/problem.ts';
import type { Params } from './route.ts';

export type ApiRequest<Body = unknown, Identity = Principal> = {
  principal: Identity;
  params: Params;
  query: URLSearchParams;
  /** Validated against the operation's `input`. */
  body: Body;
  /** Headers that were sent once; names in lower case. */
  headers: Readonly<Record<string, string | undefined>>;
  /** The `Idempotency-Key`, or the key of the form. */
  key?: string | undefined;
  /** The peer's address; `X-Forwarded-For` counts only behind a trusted proxy. */
  address: string;
  now: Date;
  /**
   * Must be called with the current version, under its row lock: throws a 412 if `If-Match` requires another one (RFC
   * 9110 §13.1.1). Only for operations with `isConditional`.
   */
  unmodified: (version: number | string) => void;
};

/** What identifies the object of a request and its caller. */
export type AddressedRequest = Pick<ApiRequest, 'params' | 'principal'>;

/**
 * `isSecret`: the document contains a secret that is shown only once, so no cache may store it (RFC 6749 §5.1). `isKnown`: the resource
 * existed, found by its `external_id`.
 */
export type CreatedResult = { document: Document; location: string; isSecret?: true; isKnown?: true };

/** Returns what a page shows beside the document: charts, and another document with current numbers. */
export type Beside = () => Promise<Pick<View, 'charts' | 'summary'>>;

type PageOptions = {
  naming?: Naming;
  page?: (view: View) => string;
  beside?: Beside;
  advice?: () => Promise<Advice | undefined>;
};

/**
 * A server-sent-event response; ends when either side closes. `open` starts the stream and may throw a `Problem`
 * instead; HEAD does not call it.
 */
export type EventStream = { status: 200; open: () => Readable };

/**
 * `naming` is set if the representation was frozen with its own. `page` replaces the generic page of a document.
 * `beside` and `advice` are called only for pages, so programs do not wait for them.
 * After a form a person is redirected to `next`, where the message `done` is shown. `location` of a 202 or 204 is the
 * address where progress can be watched.
 */
export type OperationResult =
  | ({
      status: 200 | 202;
      document: Document;
      location?: string;
      next?: string;
      done?: Done;
      isSecret?: true;
    } & PageOptions)
  | ({ status: 201 } & CreatedResult)
  | EventStream
  /** `preview`: a form asked what it would do, and nothing was done. */
  | { status: 204; location?: string; next?: string; done?: Done; preview?: string };

/** Idempotent execution of a request (Idempotency-Key). */
export type IdempotentExecution = {
  /** Returns the stored response of an earlier request with the same key. */
  findPrevious: () => Promise<CreatedResult | undefined>;
  /** Runs `make` in one transaction that also stores its response. */
  run: (make: (tx: Tx) => Promise<CreatedResult>) => Promise<CreatedResult>;
  /** Returns the same execution in the database of a store. The response moves with the shard, if there is one. */
  in: (sql: Sql, shard: number | null) => IdempotentExecution;
};

type Review = (request: ApiRequest<Readonly<Record<string, unknown>>, Principal | null>) => Promise<readonly Fault[]>;

/**
 * A body that is one `item` or an array of items, which succeed or fail together. With `areIndependent` each item succeeds or fails by
 * itself: they may also be lines of JSON, which become a `JsonLine` each, and the response says which were refused.
 */
export type InputDescription = { item: TSchema; itemsMax: number; areIndependent?: true };

/** What describes an operation, each with a default. */
type Description = {
  /** The label of a button: "Create a webhook". Default: the summary. */
  title: string;
  /** The limited scopes that suffice; by default none. Everything that `access: 'anyone'` returns needs no scope. */
  scopes: SufficientScopes;
  /** Returns those of `scopes` that suffice at an address, if not all do. */
  scopesAt: ((params: Params) => readonly Permission[]) | undefined;
  /** The statuses of a success with a Document (default: 200); of a `documentedInput` those of one item; an array is a 200. */
  statuses: readonly (200 | 201 | 202)[];
  /** Checks If-Match (`unmodified`); the reference documents If-Match and 412. */
  isConditional: boolean;
  bodyLimitBytes: number | undefined;
  /** A person in a browser must have proved who they are within ten minutes. Programs are not affected. */
  isSensitive: boolean;
  /** Parameters that the query may contain; a listing adds filters by `properties`. */
  modifiers: readonly string[];
  /** The properties that `fields` may name, of an operation that is no listing; undefined for any. */
  selects: readonly string[] | undefined;
};

export type Operation = Description & {
  /** One sentence that describes the operation, for OPTIONS, forms and the reference. */
  summary: string;
  /** `owner`: the platform, and the signed-in owners of the store in the address. `self`: they, and the person in the address. `person`: the person in the address, and no program. */
  access: 'anyone' | 'token' | 'person' | 'self' | 'owner' | 'platform';
  /** Accepts an Idempotency-Key. */
  takesKey: boolean;
  input: TSchema | undefined;
  /**
   * The body as forms and the reference document it, if `input` accepts everything because the operation validates the
   * body itself.
   */
  documentedInput: InputDescription | undefined;
  /** Responds with server-sent events, to programs only. */
  isStream: boolean;
  /** For listings: how each property of the items is compared. */
  properties: Comparisons | undefined;
  /** For listings: items have any other properties as well. */
  isOpen: boolean;
  /** Returns the properties at an address whose items have no others; undefined if they are not known. */
  closedAt: ((params: Params) => Comparisons | undefined) | undefined;
  /**
   * Throws a 404 if the caller cannot access the address. Called before `access` is checked, before the body is validated and
   * before a stored response is returned.
   */
  admit: ((request: ApiRequest<unknown, Principal | null>) => Promise<void> | undefined) | undefined;
  /** Says what a valid request would do, and does nothing; `title` is the label of its button on pages. */
  preview: { title: string; handle: (request: ApiRequest<unknown, Principal | null>) => Promise<string> } | undefined;
  /**
   * Called if `input` finds faults, with the members that have none, so that one response reports all faults of a body.
   */
  review: Review | undefined;
  /** `executionOf`: returns the idempotent execution of the request, for an operation that stores its response. */
  handle: (
    request: ApiRequest<unknown, Principal | null>,
    executionOf: () => IdempotentExecution,
  ) => Promise<OperationResult>;
};

/** Returns whether a response may have no body if the client prefers that (`Prefer: return=minimal`, RFC 7240 §4.2). */
export function mayBeMinimal(method: string, { documentedInput }: Pick<Operation, 'documentedInput'>): boolean {
  return ['POST', 'PUT', 'PATCH'].includes(method) && documentedInput?.areIndependent !== true;
}

export type OperationOptions = Partial<Description> &
  Pick<Operation, 'summary'> & { access?: Exclude<Operation['access'], 'anyone' | 'token'> };

const DEFAULTS = {
  scopes: [],
  scopesAt: undefined,
  statuses: [200],
  isConditional: false,
  bodyLimitBytes: undefined,
  isSensitive: false,
  modifiers: [],
  selects: undefined,
  takesKey: false,
  input: undefined,
  documentedInput: undefined,
  isStream: false,
  properties: undefined,
  isOpen: false,
  closedAt: undefined,
  admit: undefined,
  preview: undefined,
  review: undefined,
} as const satisfies Partial<Operation>;

export function operation(
  described: OperationOptions,
  rest: Pick<Operation, 'access' | 'handle'> & Partial<Operation>,
): Operation {
  const whole = { ...DEFAULTS, title: described.summary, ...described, ...rest };
  if (whole.properties !== undefined) return whole;
  return {
    ...whole,
    handle: async (request, executionOf) => {
      if (request.query.size > 0) refuseParameters(request.query, whole.modifiers);
      return rest.handle(request, executionOf);
    },
  };
}

/** Returns the request with its principal. Throws if it has none, which the access check prevents. */
export function withPrincipal<Body>(request: ApiRequest<unknown, Principal | null>): ApiRequest<Body> {
  const { principal, body, ...rest } = request;
  if (principal === null) throw new TypeError('The access check passed a request without a principal');
  return { ...rest, principal, body: body as Body };
}

/** Defines a read without authentication; the principal is null if the caller sends no token. */
export function open(
  described: OperationOptions & {
    handle: (request: ApiRequest<undefined, Principal | null>) => Promise<OperationResult>;
  },
): Operation {
  return operation(described, {
    access: 'anyone',
    handle: (request) => described.handle({ ...request, body: undefined }),
  });
}

/** Defines an operation without a body that requires a bearer token (of the platform if `access` says so). */
export function guarded(
  described: OperationOptions & { handle: (request: ApiRequest<undefined>) => Promise<OperationResult> },
): Operation {
  return operation(described, {
    access: described.access ?? 'token',
    handle: (request) => described.handle(withPrincipal(request)),
  });
}

/** Defines an operation like `guarded` that responds with server-sent events. */
export function streaming(
  described: OperationOptions & { handle: (request: ApiRequest<undefined>) => Promise<EventStream> },
): Operation {
  return { ...guarded(described), isStream: true };
}

/** `review` finds faults that a schema cannot express, for bodies that the schema has rejected already. */
export type BodyOptions<Schema extends TSchema> = OperationOptions & {
  input: Schema;
  /** Throws a 404 if the caller cannot access the address. */
  admit?: (request: ApiRequest) => Promise<void>;
  review?: (request: ApiRequest<Partial<Static<Schema>>>) => Promise<readonly Fault[]>;
};

/** Returns the checks of an operation that requires a bearer token and a body. */
export function checksOf<Schema extends TSchema>({ access, input, admit, review }: BodyOptions<Schema>) {
  return {
    access: access ?? 'token',
    input,
    admit: admit && ((request) => admit(withPrincipal(request))),
    review: async (request) => review?.(withPrincipal(request)) ?? [],
  } satisfies Partial<Operation>;
}

/** Defines an operation that requires a bearer token and a body according to `input`. */
export function accepting<Schema extends TSchema>(
  described: BodyOptions<Schema> & {
    inputDescription?: InputDescription;
    takesKey?: true;
    handle: (request: ApiRequest<Static<Schema>>) => Promise<OperationResult>;
  },
): Operation {
  return operation(described, {
    ...checksOf(described),
    takesKey: described.takesKey ?? false,
    documentedInput: described.inputDescription,
    handle: (request) => described.handle(withPrincipal(request)),
  });
}

/** The parameter of a page's address that selects the message about a form that has succeeded. A reload repeats nothing. */
export const DONE = 'done';

const SENTENCES = {
  created: 'Created.',
  changed: 'Changes saved.',
  done: 'Done.',
  sent: 'Sent once. See the result below.',
  rotated:
    'Done. Give the next key, if one is shown below, to the receiver: both keys are valid until the rotation ends.',
  joined: 'You are a member of this store now.',
  begun: 'Started.',
  retried: 'Retry requested.',
  unchanged: 'No changes.',
  deleted: 'Deleted.',
  gone: 'This no longer exists.',
  declined: 'Invitation declined.',
  left: 'You have left the store.',
  disconnected: 'App disconnected: its tokens no longer work, and the webhooks that it created are disabled.',
  disconnected_partly:
    'Disconnected. The app keeps the access of its other entries in this list, with their tokens and webhooks.',
} as const;

export type Done = keyof typeof SENTENCES;

export function doneSentence(query: URLSearchParams): string | undefined {
  const word = query.get(DONE) ?? '';
  return Object.hasOwn(SENTENCES, word) ? SENTENCES[word as Done] : undefined;
}
