/** One fault found in a request; `field` names the member that is wrong. */
export type Fault = { code: string; message: string; field?: string };

/**
 * Messages name what a caller sent, and a caller may send a secret where a name belongs. No name of ours is this long, and
 * every token, session and generated key is.
 */
const SECRETS = /[A-Za-z0-9+/_=-]{40,}/g;
const withoutSecrets = (text: string): string => text.replaceAll(SECRETS, '***');

const cleaned = ({ field, message, ...fault }: Fault): Fault => ({
  ...fault,
  message: withoutSecrets(message),
  ...(field === undefined ? {} : { field: withoutSecrets(field) }),
});

/**
 * What the caller did wrong, or what the service cannot do right now: thrown by any room, made into the one error
 * document by the HTTP machinery. `cause` is for the log only and never leaves the installation.
 */
export class Problem extends Error {
  readonly status: number;
  readonly faults: readonly Fault[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    faults: Fault | readonly Fault[],
    options: { headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    const list = (Array.isArray(faults) ? (faults as readonly Fault[]) : [faults as Fault]).map(cleaned);
    super(
      list.map((fault) => fault.message).join('; '),
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'Problem';
    this.status = status;
    this.faults = list;
    this.headers = options.headers ?? {};
  }
}

/** 400 with one entry for each fault found. */
export const invalid = (...faults: Fault[]): Problem => new Problem(400, faults);

/** 404: it does not exist, or it is another store's, which the caller must not be able to tell apart. */
export const notFound = (what: string): Problem =>
  new Problem(404, { code: 'not_found', message: `There is no such ${what}, or it is not yours to see` });
