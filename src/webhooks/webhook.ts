/** A webhook's settings: what a request says of them, what stands where it says nothing, and what is wrong with them. */
import { readShape } from '#catalog/shape.ts';
import { isSet } from '#http/inputs.ts';
import { isBlank } from '#core/blank.ts';
import { isHeaderValue } from '#core/header.ts';
import { Problem, type Fault } from '#core/problem.ts';
import type { Headers } from '#core/request-secrets.ts';
import { addressFault, isEncrypted } from './address.ts';
import { headerFaults } from './headers.ts';
import type { FORMATS, RETRY_PROFILES, WebhookPart } from './schema.ts';
import { subscribe, type Subscription } from './subscription.ts';

export type Settings = Subscription & {
  name: string;
  format: (typeof FORMATS)[number];
  version: string;
  url: string | null;
  query: string | null;
  isActive: boolean;
  /** Its deliveries wait for a listener, and no worker sends them. Never changes. */
  isHeld: boolean;
  /** Null: the value cannot be opened, or a request leaves it as it is. */
  headers: Headers;
  ratePerSecond: number | null;
  retryProfile: (typeof RETRY_PROFILES)[number];
};

/** Why Halcyon switched a webhook off: nothing arrived, its endpoint answered 410, or its app lost its access. */
export type InactiveReason = 'failures' | 'gone' | 'access_ended';

/** What a request asks for; what it does not name is absent. */
export type Wish = Partial<Settings> & { encryptionKey?: string | null };

/** Settings before name and format are known: the state from which a new or replaced webhook starts. */
export type Draft = Omit<Settings, 'name' | 'format'> & Partial<Pick<Settings, 'name' | 'format'>>;

export const defaults: Draft = {
  version: '2',
  url: null,
  query: null,
  eventResource: null,
  events: [],
  isActive: true,
  isHeld: false,
  headers: {},
  ratePerSecond: null,
  retryProfile: 'hour',
};

/** The members of a body as settings: clearing is `null` or the default, the spellings of a flag are one. */
export const readWish = (body: WebhookPart): Wish => {
  const wish: Wish = {};
  if (body.name !== undefined) wish.name = body.name;
  if (body.format !== undefined) wish.format = body.format;
  if (body.version !== undefined) wish.version = String(body.version ?? '') || defaults.version;
  if (body.url !== undefined) wish.url = body.url || null;
  if (body.query !== undefined) wish.query = body.query || null;
  if (body.encryption_key !== undefined) wish.encryptionKey = body.encryption_key || null;
  if (body.event_resource !== undefined) wish.eventResource = body.event_resource || null;
  if (body.events !== undefined) wish.events = body.events;
  if (body.is_active !== undefined) wish.isActive = isSet(body.is_active);
  if (body.is_held !== undefined) wish.isHeld = isSet(body.is_held);
  if (body.headers !== undefined) wish.headers = body.headers ?? {};
  if (body.rate_per_second !== undefined) wish.ratePerSecond = body.rate_per_second;
  if (body.retry_profile !== undefined) wish.retryProfile = body.retry_profile || defaults.retryProfile;
  return wish;
};

export type Circumstances = {
  /** Whether the webhook has a key after the change. */
  hasKey: boolean;
  /** Why the guard forbids the host of the url that the request sends; null where it does not. */
  forbidden: string | null;
  headerPrefix: string;
};

/** A text without any length is the schema's to refuse. */
const nameFaults = (name: string | undefined): Fault[] =>
  name !== undefined && name !== '' && isBlank(name)
    ? [{ code: 'invalid_value', message: 'name must not be blanks alone', field: 'name' }]
    : [];

const addressFaults = (draft: Draft, wish: Wish, forbidden: string | null): Fault[] => {
  if (draft.url === null) return [];
  const reason = wish.url ? addressFault(wish.url) : undefined;
  if (reason !== undefined) return [{ code: 'invalid_value', message: `url ${reason}`, field: 'url' }];
  if (forbidden !== null) return [{ code: 'forbidden_address', message: `url: ${forbidden}`, field: 'url' }];
  if (draft.format !== 'partner_sitebuilder' || isEncrypted(draft.url)) return [];
  // The key travels in a header of this format.
  const message = 'url must be https when format is partner_sitebuilder';
  return [{ code: 'invalid_value', message, field: 'url' }];
};

/** Of this format the key is the platform's token, and travels in a header. */
const tokenFaults = (format: Draft['format'], key: string | null | undefined): Fault[] => {
  if (format !== 'partner_sitebuilder' || isHeaderValue(key ?? '')) return [];
  const message = 'encryption_key must be printable ASCII when format is partner_sitebuilder';
  return [{ code: 'invalid_value', message, field: 'encryption_key' }];
};

/** It goes from hand to hand: to an address goes nothing, and so no platform's token (RFC 6750 §5.3). */
const heldFaults = ({ isHeld, url, format }: Draft): Fault[] => {
  if (!isHeld) return [];
  const faults: Fault[] = [];
  const fail = (field: string, message: string) => void faults.push({ code: 'invalid_value', message, field });
  if (url !== null)
    fail('url', 'url must be left out where is_held is 1: what is held is fetched, and goes to no address');
  if (format === 'partner_sitebuilder')
    fail('format', 'format must be another than partner_sitebuilder where is_held is 1');
  return faults;
};

const queryFaults = ({ query, eventResource }: Draft): readonly Fault[] => {
  try {
    readShape(query ?? '', eventResource);
    return [];
  } catch (error) {
    if (error instanceof Problem) return error.faults;
    throw error;
  }
};

/** What a wish makes of the settings it meets, and every fault that no schema can see. */
export const decide = <From extends Draft>(
  present: From,
  wish: Wish,
  { hasKey, forbidden, headerPrefix }: Circumstances,
): { settings: From & Wish; faults: Fault[] } => {
  const { encryptionKey: _, ...asked } = wish;
  const { faults: subscriptionFaults, ...subscription } = subscribe(wish, present);
  const settings = { ...present, ...asked, ...subscription };
  const keyFault: Fault = {
    code: 'required',
    message: 'encryption_key is required when format is json',
    field: 'encryption_key',
  };
  // Which relations there are depends on the resource: while that is wrong, nothing can be said of the query.
  const asksAnew = settings.query !== present.query || settings.eventResource !== present.eventResource;
  const faults = [
    ...nameFaults(wish.name),
    ...addressFaults(settings, wish, forbidden),
    ...heldFaults(settings),
    ...(asksAnew && subscriptionFaults.length === 0 ? queryFaults(settings) : []),
    ...(settings.format === 'json' && !hasKey ? [keyFault] : []),
    ...tokenFaults(settings.format, wish.encryptionKey),
    ...subscriptionFaults,
    ...headerFaults(wish.headers ?? {}, headerPrefix),
  ];
  return { settings, faults };
};

/** Whether the change stops what is pending: the webhook is switched off, or loses the address it sends to. */
export const stopsDeliveries = (before: Settings, after: Settings): boolean =>
  (before.isActive && !after.isActive) || (before.url !== null && after.url === null);
