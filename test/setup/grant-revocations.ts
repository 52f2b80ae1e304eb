/** All ways to end a grant, with the actor that the changelog names. */
import { removeClient } from '#identity/oauth/clients/client-change.ts';
import { addMember } from '#stores/store.ts';
import { ISSUER, PASSWORD } from '../security/oauth-server.ts';
import { hiddenIn, submit } from '../security/page-forms.ts';
import { HTML } from './form-filler.ts';
import { openEffects } from './grant-access.ts';
import { changeHome } from './suite-map.ts';
import type { App, Owner, Owners, Tokens } from './owners.ts';

type Ending = (owner: Owner, app: App, tokens: Tokens) => Promise<unknown>;
type Ended = [actor: string, user: (owner: Owner) => number | null, client: (app: App) => string | null];

const none = () => null;
const HALCYON: Ended = ['halcyon', none, none];
const PERSON: Ended = ['user', ({ userId }) => userId, none];

export type GrantEnding = { end: Ending; ended: Ended; rotates?: boolean };

export function grantEndings(owners: Owners): Readonly<Record<string, GrantEnding>> {
  const { call, sql, origin, platformToken: platform, grantOf } = owners;
  const ofStore = async ({ storeId, userId }: Owner, browser: Owner['browser'], grant: number) => {
    const page = await browser.open(`/stores/${storeId}/grants`, HTML);
    const action = `/stores/${storeId}/members/${userId}/grants/${grant}`;
    await browser.post(action, hiddenIn(page, action), HTML);
  };
  const otherOwners = new Map<number, number>();
  const PLATFORM: Ended = ['platform', none, () => owners.platform.client_id];
  return {
    'by its person on the account page': {
      end: async (owner) => {
        const action = `/account/connected/${await grantOf(owner)}/revoke`;
        const hidden = hiddenIn(await owner.browser.open('/account'), action);
        await owner.browser.post(action, hidden);
        await owner.browser.post(action, hidden);
      },
      ended: PERSON,
    },
    'by its person on the page of the store': {
      end: async (owner) => ofStore(owner, owner.browser, await grantOf(owner)),
      ended: PERSON,
    },
    'by another owner of the store': {
      end: async (owner) => {
        const { storeId } = owner;
        const { userId, browser } = await owners.newOwner();
        await addMember(sql, { storeId, userId, role: 'owner', now: owners.now() });
        otherOwners.set(storeId, userId);
        await ofStore(owner, browser, await grantOf(owner));
      },
      ended: ['user', ({ storeId }) => otherOwners.get(storeId) ?? null, none],
    },
    'by its person with a new password': {
      end: ({ browser }) =>
        submit(browser, '/account/password', '/account/password', {
          current: PASSWORD,
          password: 'another long password',
          end_grants: '1',
        }),
      ended: PERSON,
    },
    'by the platform over the API': {
      end: async (owner) => call('DELETE', `/grants/${await grantOf(owner)}`, { token: platform }),
      ended: PLATFORM,
    },
    'by its app over the API': {
      end: async (owner, _app, { access }) => call('DELETE', `/grants/${await grantOf(owner)}`, { token: access }),
      ended: ['app', ({ userId }) => userId, ({ credentials }) => credentials.client_id],
    },
    'by its app at /revoke': {
      end: async (_owner, { credentials }, { refresh }) => {
        for (let times = 0; times < 2; times += 1)
          await fetch(`${origin}/revoke`, {
            method: 'POST',
            body: new URLSearchParams({ token: refresh, ...credentials }),
          });
      },
      ended: ['app', none, ({ credentials }) => credentials.client_id],
    },
    'by Halcyon when its code comes again': {
      end: async (_owner, { credentials }, { code }) => {
        await owners.redeem(code, credentials);
        await owners.redeem(code, credentials);
      },
      ended: HALCYON,
    },
    'by Halcyon when a rotated token comes again': {
      end: async (_owner, { credentials }, { refresh }) => {
        const form = { grant_type: 'refresh_token', refresh_token: refresh, ...credentials };
        const { body } = await owners.token(form);
        await owners.token({ ...form, refresh_token: String(body['refresh_token']) });
        for (let times = 0; times < 2; times += 1) await owners.token(form);
      },
      ended: HALCYON,
      rotates: true,
    },
    'with its app, which the platform deletes': {
      end: (_owner, { credentials }) => call('DELETE', `/clients/${credentials.client_id}`, { token: platform }),
      ended: PLATFORM,
    },
    'with its app, which the operator deletes': {
      end: (_owner, { credentials }) => {
        const operator = { userId: null, origin: null, now: owners.now() };
        return changeHome(sql, async (home) =>
          removeClient(home, await openEffects(home, ISSUER), credentials.client_id, operator),
        );
      },
      ended: ['operator', none, none],
    },
  };
}
