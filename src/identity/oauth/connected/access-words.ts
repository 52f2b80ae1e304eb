/** What an app may do, and what its disconnection ends and leaves, in the words of the account page and of the page of a store's apps. */
import type { Permission } from '#core/principal.ts';
import { permissionTexts, scopeOfGrants } from '../scope.ts';

/** The permissions of each kind of access, as on the consent page. */
const MAY_STORE = 'See and change everything: customers, subscriptions, transactions and webhooks';
const MAY_ACCOUNT = 'See your account and do everything you can in all your stores, including future ones';

type Access = { storeId: number | null; permissions: readonly Permission[] | null };

/** Returns what an app may do: the sentence of its full access (`ofAccount` for an account), or those of its limited scopes. */
export function permissionWords({ storeId, permissions }: Access, ofAccount = MAY_ACCOUNT): readonly string[] {
  const { permissions: limited } = scopeOfGrants(storeId, permissions);
  if (limited === null) return [storeId === null ? ofAccount : MAY_STORE];
  const texts = permissionTexts();
  return limited.map((name) => texts.get(name) ?? name);
}

/**
 * `active`: the active webhooks that the app created under the access; `stopping`: those of them that its end disables. `declares`: the app
 * declares a webhook. `isLast`: the app has no other access to the store; undefined if that is not known.
 */
type AccessEnd = { active: number; stopping: number; declares: boolean; isLast?: boolean };

const counted = (count: number): string => (count === 1 ? '1 webhook' : `${count} webhooks`);

/** Returns what the end of an access stops, what continues, and for how long. */
export function endWords({ active, stopping, declares, isLast }: AccessEnd): string {
  const kept = active - stopping;
  const parts = [
    'Its access ends at once, and so do its tokens.',
    stopping > 0 &&
      `${counted(stopping)} that it created ${stopping === 1 ? 'is' : 'are'} disabled: nothing is sent any more, except requests that are under way.`,
    kept > 0 &&
      `${counted(kept)} that it created ${kept === 1 ? 'stays' : 'stay'} active, because it has another access to the store.`,
    isLast === false &&
      'Other access of the app to this store, which is another entry of this list, stays with its tokens and webhooks.',
    declares && isLast === true && 'The webhook that it declares is sent one last event, app/uninstalled.',
    declares &&
      isLast !== true &&
      'The webhook that it declares is sent an event if this changes what the app may do in a store.',
    'It can ask for access again.',
  ];
  return parts.filter((part) => part !== false).join(' ');
}
