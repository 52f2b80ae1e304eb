/**
 * Clients that are identified by the https address of their metadata (draft-ietf-oauth-client-id-metadata-document-03): fetches, validates and
 * keeps the documents, and makes the row of such a client with the first consent.
 */
import { LRUCache } from 'lru-cache';
import type { Origin } from '#identity/accounts/audit.ts';
import type { Throttle } from '#identity/accounts/throttle.ts';
import { entriesUpTo } from '#core/entries.ts';
import { Problem } from '#core/problem.ts';
import { parseJson } from '#http/bodies/json-body.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { changeClient } from '../clients/client-change.ts';
import { settingsFrom, settingsHash, type ClientSettings } from '../clients/client-fields.ts';
import { documentHost } from '../protocol-requests.ts';
import { createClient, UNUSED_DAYS, type AppWebhooks } from '../clients/clients.ts';
import { findClient, type Client } from '../clients/clients-sql.ts';
import { refusals, unusableDocument, type Fault } from '../oauth-errors.ts';
import { scopeEntries, userScopes } from '../scope.ts';
import { readMetadata } from './registration-metadata.ts';

/** Fetches the document at an address; `why` it failed is the end of a sentence. */
export type FetchDocument = (
  url: string,
) => Promise<{ kind: 'document'; text: string; headers: Headers } | { kind: 'failed'; why: string }>;

/** A client at the consent page; its id is null if a document identifies it and it has no access yet. */
export type ConsentClient = Omit<Client, 'id'> & { id: number | null };

type DocumentSettings = Pick<ClientSettings, 'name' | 'redirectUris' | 'scopes' | 'clientUri' | 'policyUri' | 'tosUri'>;

const DAY_MS = 86_400_000;
const DOCUMENTS_KEPT_MAX = 1_000;
/** The bounds of what the headers of a document say. */
const KEPT_SECONDS = { min: 60, max: 86_400 };

/** Returns for how many seconds the response may be used without another request (RFC 9111 §4.2.1), within the bounds. */
function keptSeconds(headers: Headers): number {
  const control = headers.get('cache-control')?.toLowerCase() ?? '';
  const [, maxAge] = /(?:^|[\s,])max-age="?(\d+)/.exec(control) ?? [];
  const expires = Date.parse(headers.get('expires') ?? '') - Date.parse(headers.get('date') ?? '');
  const lifetime = maxAge === undefined ? expires / 1_000 : Number(maxAge);
  const seconds = /\bno-(?:store|cache)\b/.test(control) ? 0 : lifetime - Number(headers.get('age') ?? 0);
  return Math.min(Math.max(seconds || 0, KEPT_SECONDS.min), KEPT_SECONDS.max);
}

const only = (value: unknown, supported: readonly string[]): unknown =>
  Array.isArray(value) ? value.filter((entry) => supported.includes(String(entry))) : value;

/**
 * Returns the settings in a document, or why it cannot be used. A document is written for many servers, so members, grant types and scopes
 * that this server does not know are left out, and it is no fault to have no `client_name`. Without `token_endpoint_auth_method` it is
 * `none`: the default of RFC 7591 is a secret, which no document can have.
 */
function readDocument(url: string, text: string, now: Date): DocumentSettings | string {
  let value: unknown;
  try {
    value = parseJson(Buffer.from(text));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return error.message;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'it is not a JSON object';
  const document = value as Record<string, unknown>;
  if (document['client_id'] !== url) return 'its client_id is not exactly its own address';
  const secret = ['client_secret', 'client_secret_expires_at'].find((name) => Object.hasOwn(document, name));
  if (secret !== undefined) return `it must not have ${secret}`;
  if ((document['token_endpoint_auth_method'] ?? 'none') !== 'none')
    return 'its token_endpoint_auth_method must be none: this server authenticates such an app by PKCE alone';
  const { client_name, redirect_uris, client_uri, policy_uri, tos_uri, grant_types, response_types, scope } = document;
  const { metadata, faults } = readMetadata(
    {
      client_name: client_name || documentHost(url),
      redirect_uris,
      client_uri,
      policy_uri,
      tos_uri,
      grant_types: only(grant_types, ['authorization_code', 'refresh_token']),
      response_types: only(response_types, ['code']),
      scope:
        typeof scope === 'string'
          ? scopeEntries(scope)
              .filter((name) => userScopes().includes(name))
              .join(' ')
          : scope,
      token_endpoint_auth_method: 'none',
    },
    now,
  );
  if (faults.length > 0) return faults.map(({ message }) => message).join('; ');
  const { name, redirectUris, scopes, clientUri, policyUri, tosUri } = metadata;
  return {
    name,
    redirectUris: [...new Set(redirectUris)],
    scopes: scopes && [...new Set(scopes)],
    clientUri,
    policyUri,
    tosUri,
  };
}

/** Returns the client of a document that has no row. */
function newClient(clientId: string, settings: DocumentSettings, now: Date): ConsentClient {
  return {
    ...settingsFrom({ ...settings, rotatesRefreshTokens: true }),
    id: null,
    clientId,
    ownerId: null,
    externalId: null,
    isPublic: true,
    trusted: false,
    isVerified: false,
    isLegacy: false,
    allowsDeviceGrant: false,
    suspendedReason: null,
    logoDate: null,
    dateCreated: now,
    dateModified: now,
  };
}

/** A quarter of those of a process, so that a person with slow documents does not refuse those of others. */
const AT_ONCE_PER_PERSON = 4;

type Kept = { settings: DocumentSettings; expiresMs: number };
type Read = (url: string, userId: number, now: Date) => Promise<DocumentSettings | Fault>;

/** Returns what reads a document, or says why it cannot be used. Failures are not kept (draft §5.2), but what a person causes is limited. */
function createReader(fetchDocument: FetchDocument, throttle: Throttle): Read {
  const kept = new LRUCache<string, Kept>(entriesUpTo(DOCUMENTS_KEPT_MAX));
  const underWay = new Map<string, { userId: number; reading: Promise<DocumentSettings | Fault> }>();
  const fetchNow = async (url: string, now: Date): Promise<DocumentSettings | Fault> => {
    const fetched = await fetchDocument(url);
    if (fetched.kind === 'failed') return unusableDocument(fetched.why);
    const settings = readDocument(url, fetched.text, now);
    if (typeof settings === 'string') return unusableDocument(settings);
    kept.set(url, { settings, expiresMs: now.getTime() + keptSeconds(fetched.headers) * 1_000 });
    return settings;
  };
  const findKept = (url: string, now: Date): DocumentSettings | undefined => {
    const known = kept.get(url);
    return known !== undefined && known.expiresMs > now.getTime() ? known.settings : undefined;
  };
  return async (url, userId, now) => {
    const known = findKept(url, now);
    if (known !== undefined) return known;
    const taken = await throttle.take([{ limit: 'documents by person', subject: String(userId) }], now);
    if (!taken.allowed)
      return unusableDocument(`too many were fetched; try again in ${taken.retryAfterSeconds} seconds`);
    // Another request may have fetched it since.
    const meanwhile = findKept(url, now) ?? underWay.get(url)?.reading;
    if (meanwhile !== undefined) return meanwhile;
    const own = underWay.values().filter((one) => one.userId === userId);
    if ([...own].length >= AT_ONCE_PER_PERSON)
      return unusableDocument('others of yours are being fetched; try again shortly');
    const reading = fetchNow(url, now).finally(() => underWay.delete(url));
    underWay.set(url, { userId, reading });
    return reading;
  };
}

export type ClientDocuments = ReturnType<typeof createClientDocuments>;

export function createClientDocuments(
  { sql, config: { oauth } }: Pick<Runtime, 'sql' | 'config'>,
  deps: { fetchDocument: FetchDocument; throttle: Throttle; appWebhooks: AppWebhooks },
) {
  const { appWebhooks } = deps;
  const read = createReader(deps.fetchDocument, deps.throttle);
  return {
    /**
     * Returns the client that the address identifies, with what its document says now; the fault of a document that cannot be used. The
     * request is that of a signed-in person, so that strangers do not make this server send requests.
     */
    find: async (url: string, { userId }: { userId: number }, now: Date): Promise<ConsentClient | Fault> => {
      if (!oauth.acceptsMetadataDocuments) return refusals.unknownClient;
      const row = await findClient(sql, url);
      // The suspension is reported whatever the document says.
      if (row !== undefined && row.suspendedReason !== null) return row;
      const settings = await read(url, userId, now);
      if ('error' in settings) return settings;
      if (row === undefined) return newClient(url, settings, now);
      const client = { ...row, ...settings };
      return { ...client, isVerified: row.isVerified && settingsHash(client) === settingsHash(row) };
    },
    /**
     * Returns the client as it is stored, after a person has let it in: makes or changes the row of a client that a document identifies.
     * Undefined if the client was deleted meanwhile.
     */
    keep: async (
      client: ConsentClient,
      { origin, now }: { origin: Origin; now: Date },
    ): Promise<Client | undefined> => {
      const { clientId, id } = client;
      if (documentHost(clientId) === undefined) return id === null ? undefined : { ...client, id };
      const by = { caller: { itself: clientId }, origin, now };
      const row = await findClient(sql, clientId);
      if (row === undefined) {
        const unusedUntil = new Date(now.getTime() + UNUSED_DAYS * DAY_MS);
        try {
          await createClient(sql, { ...client, ...by, unusedUntil });
        } catch (error) {
          // Another person has let it in at the same time, or it is being deleted.
          if (!(error instanceof Problem && error.status === 409)) throw error;
        }
        return findClient(sql, clientId);
      }
      const [baseHash, settings] = [settingsHash(row), settingsFrom(client)];
      if (settingsHash(settings) === baseHash) return row;
      await changeClient({ sql, appWebhooks }, row, settings, { ...by, userId: null, baseHash });
      return findClient(sql, clientId);
    },
  };
}
