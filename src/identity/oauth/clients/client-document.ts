/** Represents a client, and an install of an app for its developer (where the app is used, but not by whom), as Documents. */
import { formatDate } from '#hypermedia/date.ts';
import { json, type Document, type Link } from '#hypermedia/document.ts';
import { accessView, installFields, webhookWords } from '../grants.ts';
import { propertiesOf } from '#http/field-table.ts';
import { clientFields } from './client-fields.ts';
import { versionOf } from './client-change.ts';
import type { Progress } from './clients.ts';
import { logoPath } from './logo.ts';
import { FULL_SCOPES, permissionWords, scopeTextOfGrants } from '../scope.ts';
import type { Client } from './clients-sql.ts';
import { reachesStore, type Principal } from '#core/principal.ts';
import type { Install } from './client-lists-sql.ts';

export function addressOfClient(clientId: string, baseUrl: string): string {
  return `${baseUrl}/clients/${encodeURIComponent(clientId)}`;
}

/** Returns the links of a client. A client without an owner is visible only to the platform, which may list all clients. */
function linksOf(
  { clientId, ownerId, isListed }: Client,
  { baseUrl, authUrl }: { baseUrl: string; authUrl: string },
): Link[] {
  const self: Link = { rel: 'self', href: addressOfClient(clientId, baseUrl), title: 'This client' };
  const listing: Link = {
    rel: 'listing',
    href: listingPath(authUrl, clientId),
    title: 'The public page of the app',
    type: 'text/html',
  };
  const always: Link[] = [
    self,
    { rel: 'installs', href: `${self.href}/installs`, title: 'Where the app is installed' },
    ...(isListed ? [listing] : []),
  ];
  if (ownerId === null) return [...always, { rel: 'clients', href: `${baseUrl}/clients`, title: 'All clients' }];
  const owner = `${baseUrl}/users/${ownerId}`;
  return [
    ...always,
    { rel: 'user', href: owner, title: 'The owner of the app' },
    { rel: 'clients', href: `${owner}/clients`, title: 'All apps of the owner' },
  ];
}

/** `tokens`: for the store of a new client. */
export type Secrets = {
  clientSecret: string | null;
  webhookKey: string | null;
  tokens?: { access_token: string; refresh_token: string } | undefined;
};

const describe = propertiesOf(clientFields);

/**
 * Returns the Document of a client. The secrets are null except in the response to the request with which they are made. `progress`: how many
 * stores have followed the last change of what it declares; undefined if all have.
 */
export function clientDocument(
  client: Client,
  addresses: { baseUrl: string; authUrl: string },
  progress: Progress | undefined,
  { clientSecret, webhookKey, tokens }: Secrets = { clientSecret: null, webhookKey: null },
): Document {
  const { clientId, logoDate, isPublic, requiresPkce } = client;
  const shown = { ...client, requiresPkce: requiresPkce || isPublic };
  return {
    name: 'client',
    title: client.name,
    version: versionOf(client),
    links: linksOf(client, addresses),
    embedded: [],
    properties: describe(shown, 'UTC', {
      client_secret: clientSecret,
      access_token: tokens?.access_token ?? null,
      refresh_token: tokens?.refresh_token ?? null,
      webhook_stores_followed: progress?.followed ?? null,
      webhook_stores_total: progress?.total ?? null,
      webhook_key: webhookKey,
      scopes: client.scopes,
      logo: logoDate === null ? null : logoPath(addresses.authUrl, clientId, logoDate),
    }).map((property) => (property.name === 'scopes' ? json('scopes', client.scopes ?? FULL_SCOPES) : property)),
  };
}

export function addressOfInstalls(clientId: string, baseUrl: string): string {
  return `${addressOfClient(clientId, baseUrl)}/installs`;
}

/** `storeId`: the store if the reader can open it. */
function linksOfInstall(storeId: number | null, clientId: string, baseUrl: string): Link[] {
  return [
    { rel: 'client', href: addressOfClient(clientId, baseUrl), title: 'The app' },
    ...(storeId === null ? [] : [{ rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'The store' }]),
  ];
}

const WHOLE_ACCOUNT = 'A whole account';
/** What an app may do that has access to the account of a person whom its developer does not know. */
const OF_ACCOUNT = 'Do everything that its owner can do, in all stores of the owner';

const failingWords = (failing: number): string =>
  failing === 0 ? '' : failing === 1 ? '; 1 fails' : `; ${failing} fail`;

const describeInstall = propertiesOf(installFields);

export function installDocument(
  install: Install,
  { clientId, principal, baseUrl }: { clientId: string; principal: Principal; baseUrl: string },
): Document {
  const { storeId } = install;
  return {
    name: 'install',
    title: install.storeName ?? WHOLE_ACCOUNT,
    links: linksOfInstall(storeId !== null && reachesStore(principal, storeId) ? storeId : null, clientId, baseUrl),
    embedded: [],
    properties: describeInstall(install, 'UTC', {
      scope: scopeTextOfGrants(storeId, install.permissions),
      webhooks_total: install.webhooks,
      webhooks_active: install.active,
      webhooks_failing: install.failing,
    }),
    ...accessView.attach({
      company: null,
      isUnverified: false,
      reach: storeId === null ? WHOLE_ACCOUNT : (install.storeName ?? `Store ${storeId}`),
      permissions: permissionWords(install, OF_ACCOUNT),
      since: formatDate(install.dateCreated, 'UTC'),
      lastUsed: install.dateUsed && formatDate(install.dateUsed, 'UTC'),
      ends: null,
      webhooks: `${webhookWords({ total: install.webhooks, active: install.active })}${failingWords(install.failing)}`,
    }),
  };
}

/** Returns the address of the public page of an app; `root` is the address or the path of the pages. */
export function listingPath(root: string, clientId: string): string {
  return `${root}/apps/${encodeURIComponent(clientId)}`;
}

export function installPath(root: string, clientId: string): string {
  return `${listingPath(root, clientId)}/install`;
}
