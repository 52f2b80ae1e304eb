/**
 * Links that are mailed to an address, and prove that a person reads its mail: to a new password, a new account (sign-up and invitation) or a
 * changed address. A link expires, works once, and is stored as the SHA-256 of its random token. A link that the platform gives to a person
 * itself (portal/) is of the same kind.
 *
 * `askForLink` is the flow of the form that asks for an address, `followLink` that of the page to which a link leads.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { readEmail } from '#core/email.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { noticeAnswer, tooManyAnswer } from './page-kit.ts';
import type { Bucket, Throttle } from './throttle.ts';

/** The prefix lets a secret scanner, or a reader of a log, identify a leaked secret. */
const PREFIXES = {
  passwordReset: 'hal_pr_',
  signUp: 'hal_su_',
  emailChange: 'hal_ec_',
  emailUndo: 'hal_eu_',
  portal: 'hal_pl_',
} as const;
const TOKEN_BYTES = 32;

type Kind = keyof typeof PREFIXES;

const hash = (token: string): Buffer => createHash('sha256').update(token).digest();

/** Returns a new token and its hash. */
export function newLinkToken(kind: Kind): { token: string; hash: Buffer } {
  const token = PREFIXES[kind] + randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, hash: hash(token) };
}

/** What a valid link stands for, with its token and the hash of it. */
export type Found<Link> = Link & { token: string; hash: Buffer };

/**
 * Returns the link of a token; undefined if it is unknown, used or expired. A text that cannot be a token of this kind saves the
 * statement.
 */
export async function findLink<Link extends object>(
  kind: Kind,
  token: string | null,
  find: (hash: Buffer) => Promise<Link | undefined>,
): Promise<Found<Link> | undefined> {
  const prefix = PREFIXES[kind];
  if (token?.startsWith(prefix) !== true || !/^[A-Za-z0-9_-]{43}$/.test(token.slice(prefix.length))) return undefined;
  const tokenHash = hash(token);
  const link = await find(tokenHash);
  return link && { ...link, token, hash: tokenHash };
}

/** The mail of a link, and what limits it. */
export type LinkMail = {
  buckets: readonly Bucket[];
  /** Sends the mail that fits the address: the link, or that there is an account already. */
  send: () => Promise<void>;
};

/** Why a person asks for a link: what is shown and mailed. The pages do not show whether the address has an account. */
export type LinkPurpose = {
  /** What the log says if the mail could not be made. */
  failure: string;
  /** Renders the form again for a text that is no address. */
  refuse: (typed: string) => RawResponse;
  /** The advice of the page for too many attempts. */
  advice: Markup;
  mailTo: (email: string) => Promise<LinkMail>;
  sent: (email: string) => RawResponse;
};

/** Mails the link for the address that was entered, unless a limit is reached; earlier links stay valid. */
export async function askForLink(
  { log, config }: Pick<Runtime, 'log' | 'config'>,
  throttle: Throttle,
  request: RawRequest,
  { typed, ...purpose }: LinkPurpose & { typed: string },
): Promise<RawResponse> {
  const email = readEmail(typed);
  if (email === undefined) return purpose.refuse(typed);
  const { buckets, send } = await purpose.mailTo(email);
  const taken = await throttle.take(buckets, request.now);
  if (!taken.allowed) return tooManyAnswer(rootOf(config.authUrl), taken, purpose.advice);
  // Does not wait: a commit waits for the disk, and its duration would reveal whether the account exists.
  send().catch((error: unknown) => log.error({ err: error }, purpose.failure));
  return purpose.sent(email);
}

/** Returns the 410 of a link that is not valid. `again`: the page where another one is requested. */
export function invalidLink(again: string): RawResponse {
  return noticeAnswer(410, {
    title: 'Link not valid',
    alert: 'The link was already used, has expired, or was replaced by newer ones.',
    link: { href: again, label: 'Request another link' },
  });
}

/**
 * Creates the handlers of the page to which a link leads: GET shows its form, POST uses the link. GET does not consume it, because mail
 * scanners open links in advance. `visit` is what the handlers get beside the request, such as the session.
 */
export function followLink<Link extends object, Visit extends readonly unknown[] = []>(
  kind: Kind,
  link: {
    /** Returns what the link with this hash stands for; undefined if it is unknown, used or expired. */
    find: (hash: Buffer, now: Date, ...visit: Visit) => Promise<Link | undefined>;
    invalid: (...visit: Visit) => RawResponse;
    show: (link: Found<Link>, ...visit: Visit) => RawResponse | Promise<RawResponse>;
    submit: (request: RawRequest, link: Found<Link>, ...visit: Visit) => Promise<RawResponse>;
  },
): Record<'show' | 'submit', (request: RawRequest, ...visit: Visit) => Promise<RawResponse>> {
  const found = (token: string | null, now: Date, visit: Visit) =>
    findLink(kind, token, (tokenHash) => link.find(tokenHash, now, ...visit));
  return {
    show: async ({ query, now }, ...visit) => {
      const shown = await found(query.get('token'), now, visit);
      return shown === undefined ? link.invalid(...visit) : link.show(shown, ...visit);
    },
    submit: async (request, ...visit) => {
      const used = await found(request.form.get('token'), request.now, visit);
      return used === undefined ? link.invalid(...visit) : link.submit(request, used, ...visit);
    },
  };
}
