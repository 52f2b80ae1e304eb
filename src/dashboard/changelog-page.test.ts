import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sentenceOf, type Entry } from './changelog-page.ts';

const names = {
  members: new Map([
    [1, 'ada@shop.example'],
    [2, 'bob@shop.example'],
  ]),
  apps: new Map([['client-1', 'Newsletter']]),
  webhooks: new Map([[7, 'Orders']]),
};
const ofWebhook: Entry = {
  id: 1,
  date_created: '2026-11-24T10:00:00+0000',
  resource: 'webhook',
  resource_id: 7,
  action: 'changed',
  actor: 'user',
  user: 1,
  client: null,
  before: {},
  after: {},
};
const byAda = (entry: Partial<Entry>): Entry => ({ ...ofWebhook, ...entry });
const read = (entry: Entry): string => {
  const { subject, verb, object, end } = sentenceOf(entry, names);
  return [subject, verb, object, end].filter((part) => part !== null && part !== '').join(' ');
};

const ROTATION = { encryption_key: 'set', next_encryption_key: null, rotation_ends: null };
const cases: readonly (readonly [sentence: string, entry: Entry])[] = [
  [
    'bob@shop.example joined the store as member',
    byAda({ resource: 'member', resource_id: 2, user: 2, action: 'created', before: null, after: { role: 'member' } }),
  ],
  [
    'ada@shop.example added bob@shop.example as owner',
    byAda({ resource: 'member', resource_id: 2, action: 'created', before: null, after: { role: 'owner' } }),
  ],
  [
    'ada@shop.example invited a person as owner',
    byAda({ resource: 'invitation', action: 'created', before: null, after: { role: 'owner' } }),
  ],
  [
    'bob@shop.example accepted the invitation as member',
    byAda({ resource: 'invitation', user: 2, action: 'accepted', before: { role: 'member' }, after: null }),
  ],
  [
    'ada@shop.example revoked the invitation of a person as member',
    byAda({ resource: 'invitation', action: 'deleted', before: { role: 'member' }, after: null }),
  ],
  ['ada@shop.example created the webhook Orders', byAda({ action: 'created', before: null })],
  [
    'ada@shop.example deleted the webhook Old',
    byAda({ action: 'deleted', resource_id: 8, before: { name: 'Old' }, after: null }),
  ],
  [
    'ada@shop.example renamed a webhook to Sync (was Orders)',
    byAda({ before: { name: 'Orders' }, after: { name: 'Sync' } }),
  ],
  ['ada@shop.example disabled the webhook Orders', byAda({ before: { is_active: '1' }, after: { is_active: '0' } })],
  [
    'ada@shop.example enabled the webhook Orders',
    byAda({
      before: { is_active: '0', inactive_reason: 'gone' },
      after: { is_active: '1', inactive_reason: null },
    }),
  ],
  [
    'ada@shop.example replaced the key of the webhook Orders',
    byAda({ before: { encryption_key: 'set' }, after: { encryption_key: 'replaced' } }),
  ],
  [
    'ada@shop.example set the key of the webhook Orders',
    byAda({ before: { encryption_key: null }, after: { encryption_key: 'set' } }),
  ],
  [
    'ada@shop.example removed the key of the webhook Orders',
    byAda({ before: { encryption_key: 'set' }, after: { encryption_key: 'removed' } }),
  ],
  [
    'ada@shop.example rotated the key of Orders',
    byAda({
      before: { next_encryption_key: null, rotation_ends: null },
      after: { next_encryption_key: 'set', rotation_ends: '2026-11-25T10:00:00+0000' },
    }),
  ],
  [
    'ada@shop.example ended the key rotation of Orders',
    byAda({
      before: { ...ROTATION, next_encryption_key: 'set', rotation_ends: '2026-11-25T10:00:00+0000' },
      after: { ...ROTATION, encryption_key: 'replaced', next_encryption_key: 'removed' },
    }),
  ],
  [
    'ada@shop.example changed name, URL, and active of the webhook Orders',
    byAda({ before: {}, after: { name: 'Orders', url: 'https://a.example', is_active: '1' } }),
  ],
  [
    'Halcyon disabled the webhook Orders after too many consecutive failed attempts',
    byAda({
      action: 'deactivated',
      actor: 'halcyon',
      user: null,
      after: { is_active: '0', inactive_reason: 'failures' },
    }),
  ],
  [
    'Newsletter, for bob@shop.example, created the webhook Orders',
    byAda({ action: 'created', actor: 'app', user: 2, client: 'client-1', before: null }),
  ],
  [
    'An app, for former member 9, created the webhook Orders',
    byAda({ action: 'created', actor: 'app', user: 9, client: 'gone', before: null }),
  ],
  ['Former member 9 created the webhook Orders', byAda({ action: 'created', user: 9, before: null })],
  [
    'The operator added bob@shop.example as owner',
    byAda({
      resource: 'member',
      resource_id: 2,
      actor: 'operator',
      user: null,
      action: 'created',
      before: null,
      after: { user_id: 2, role: 'owner' },
    }),
  ],
  [
    'ada@shop.example changed the role of bob@shop.example from owner to member',
    byAda({ resource: 'member', resource_id: 2, before: { role: 'owner' }, after: { role: 'member' } }),
  ],
  [
    'Former member 9 left the store',
    byAda({
      resource: 'member',
      resource_id: 9,
      user: 9,
      action: 'deleted',
      before: { user_id: 9, role: 'owner' },
      after: null,
    }),
  ],
  [
    'The platform removed former member 9 from the store',
    byAda({
      resource: 'member',
      resource_id: 9,
      actor: 'platform',
      action: 'deleted',
      before: { user_id: 9, role: 'owner' },
      after: null,
    }),
  ],
  [
    'ada@shop.example connected the app Newsletter to this store',
    byAda({ resource: 'grant', action: 'given', before: null, after: { client_id: 'client-1', name: 'Newsletter' } }),
  ],
  [
    'ada@shop.example disconnected the app Newsletter from this store',
    byAda({ resource: 'grant', action: 'revoked', before: { client_id: 'client-1' }, after: null }),
  ],
  [
    'Halcyon disconnected the app Newsletter from this store for bob@shop.example',
    byAda({
      resource: 'grant',
      action: 'revoked',
      actor: 'halcyon',
      user: null,
      before: { client_id: 'client-1', user_id: 2 },
      after: null,
    }),
  ],
  [
    'The platform changed domain of the store',
    byAda({ resource: 'store', actor: 'platform', before: { domain: 'a' }, after: { domain: 'b' } }),
  ],
];
for (const [sentence, entry] of cases) test(sentence, () => assert.equal(read(entry), sentence));

test('an erased customer is named by the id of the platform', () => {
  const entry = { resource: 'customer', resource_id: 'c-9', action: 'erased', actor: 'platform', user: null } as const;
  assert.equal(
    read(byAda({ ...entry, before: { id: 'c-9' }, after: null })),
    'The platform erased the data of customer c-9',
  );
});
