/** A partner app: store owners connect their stores by OAuth, and the app shows the orders of these stores as they happen. */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { receiveWebhooks } from '@halcyon/receiver/express';
import cookieParser from 'cookie-parser';
import express from 'express';
import * as oauth from 'openid-client';

const { HALCYON_URL = 'http://localhost:8080', PORT = '3000' } = process.env;
const OWN_URL = `http://localhost:${PORT}`;
const { client_id: clientId, client_secret: clientSecret } = JSON.parse(readFileSync('client.json', 'utf8'));

// The metadata of the authorization server (RFC 8414) has its addresses. Only a server on this machine may use plain http.
const server = await oauth.discovery(new URL(HALCYON_URL), clientId, clientSecret, undefined, {
  algorithm: 'oauth2',
  execute: HALCYON_URL.startsWith('http://localhost') ? [oauth.allowInsecureRequests] : [],
});

// Connected stores by id: tokens, the key of the webhook, and the latest orders. Use a database, and encrypt tokens and keys in it.
const stores = new Map(readStores());

function readStores() {
  try {
    return JSON.parse(readFileSync('stores.json', 'utf8'));
  } catch {
    return [];
  }
}
function saveStores() {
  writeFileSync('stores.json', JSON.stringify([...stores]), { mode: 0o600 });
}

/** Calls the API for a store, with a new access token if the last one has expired. */
async function call(store, method, url, body) {
  if (Date.now() > store.expiresAt) keepTokens(store, await oauth.refreshTokenGrant(server, store.refreshToken));
  const response = await fetch(url, {
    method,
    headers: {
      Authorization: `Bearer ${store.accessToken}`,
      'SERVICE-API-VERSION': '1',
      'Content-Type': 'application/json',
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Refresh tokens may be replaced at each use: keep the new one. */
function keepTokens(store, tokens) {
  store.accessToken = tokens.access_token;
  store.refreshToken = tokens.refresh_token ?? store.refreshToken;
  store.expiresAt = Date.now() + (tokens.expires_in - 60) * 1000;
}

/** Follows the links from the API's home to the store's webhooks, and adds one whose key only this store and the app know. */
async function addWebhook(store) {
  const home = await call(store, 'GET', HALCYON_URL);
  const { _links: links, name } = await call(store, 'GET', home._links['svc:store'].href);
  store.name = name;
  const webhook = await call(store, 'POST', links['svc:webhooks'].href, {
    name: 'Order board',
    format: 'json',
    event_resource: 'transaction',
    query: 'zoom=customer',
    url: `${OWN_URL}/webhooks/${store.id}`,
    encryption_key: store.key,
  });
  store.webhook = webhook._links.self.href;
}

const app = express();

// Above cookieParser and body parsers: the signature is over the bytes as they arrive.
app.post('/webhooks/:store', (request, response, next) => {
  const store = stores.get(request.params.store);
  // 410 disables the webhook; with another status Halcyon would try again.
  if (store === undefined) return response.sendStatus(410);
  return receiveWebhooks({ keys: [store.key] }, (delivery) => receive(store, delivery))(request, response, next);
});

/** Keeps the highest version of each order: deliveries may be repeated, and may arrive in another order. */
function receive(store, { event, payload, resourceVersion, isTest }) {
  if (isTest) return;
  const known = store.orders[payload.id];
  if (known !== undefined && known.version >= resourceVersion) return;
  store.orders[payload.id] = { version: resourceVersion, event, total: payload.total_order };
  saveStores();
}

app.use(cookieParser());

app.get('/connect', async (_request, response) => {
  // The cookie binds the redirect to this browser: `state` against forged ones, PKCE (RFC 7636) against stolen codes.
  const flow = { state: oauth.randomState(), verifier: oauth.randomPKCECodeVerifier() };
  response.cookie('flow', JSON.stringify(flow), { httpOnly: true, sameSite: 'lax', maxAge: 600_000 });
  const address = oauth.buildAuthorizationUrl(server, {
    redirect_uri: `${OWN_URL}/callback`,
    scope: 'store_full_access',
    state: flow.state,
    code_challenge: await oauth.calculatePKCECodeChallenge(flow.verifier),
    code_challenge_method: 'S256',
  });
  response.redirect(address.href);
});

app.get('/callback', async (request, response) => {
  const { state, verifier } = JSON.parse(request.cookies.flow ?? '{}');
  response.clearCookie('flow');
  if (state === undefined) return response.redirect('/');
  const tokens = await oauth.authorizationCodeGrant(server, new URL(request.originalUrl, OWN_URL), {
    expectedState: state,
    pkceCodeVerifier: verifier,
  });
  const [, id] = /\bstore_id_(\d+)/.exec(tokens.scope) ?? [];
  const store = stores.get(id) ?? { id, key: `whsec_${randomBytes(32).toString('base64')}`, orders: {} };
  keepTokens(store, tokens);
  // Before the webhook exists, because its first delivery may arrive before the response.
  stores.set(id, store);
  if (store.webhook === undefined) await addWebhook(store);
  saveStores();
  return response.redirect('/');
});

const escaped = (text) => String(text).replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);

app.get('/', (_request, response) => {
  const sections = [...stores.values()].map(({ name, orders }) => {
    const existing = Object.entries(orders).filter(([, { event }]) => event !== 'transaction/deleted');
    const rows = existing.map(
      ([id, { event, total }]) => `<tr><td>${escaped(id)}<td>${escaped(event)}<td>${escaped(total)}`,
    );
    return `<h2>${escaped(name)}</h2><table><tr><th>Order<th>Last event<th>Total${rows.join('')}</table>`;
  });
  response.send(`<!doctype html><title>Order board</title><meta http-equiv="refresh" content="5">
    <h1>Order board</h1><p><a href="/connect">Connect a store</a></p>${sections.join('')}`);
});

// A person who refused, or a code that was used: Express shows the message of the error.
app.listen(Number(PORT), 'localhost', () => console.log(`Order board: ${OWN_URL}`));
