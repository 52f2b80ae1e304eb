/** The card of the developer's sandbox store on the page of the own apps: POST /account/sandbox-store creates the store. */
import { inPerson } from '#changelog/changelog.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { redirectAnswer } from '#http/answers.ts';
import type { RawHandler } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shardOf } from '#core/ids.ts';
import { addressOfStore } from '#stores/document.ts';
import { findMember } from '#stores/members/members-sql.ts';
import { provideSandbox } from '#stores/sandbox.ts';
import { findSandbox } from '#stores/stores-sql.ts';
import { postForm } from '#identity/accounts/page-kit.ts';
import { type PagesDeps } from './page-context.ts';

const FORM = ['create sandbox store'] as const;

const pathOfStore = (storeId: number, baseUrl: string): string => new URL(addressOfStore(storeId, baseUrl)).pathname;

/** Renders the card; null if the user has no sandbox store and cannot create one. */
export async function sandboxCard(
  { sql, signedIn, root, baseUrl, allowsSandboxes }: PagesDeps,
  session: Session,
): Promise<Markup | null> {
  const { userId } = session;
  const store = await findSandbox(sql, userId);
  if (store === undefined && !allowsSandboxes) return null;
  const key = store && { shard: shardOf(store.id), storeId: store.id, userId };
  const isMember = key !== undefined && (await findMember(sql, key)) !== undefined;
  return html`<div class="card">
    <h2>Sandbox store</h2>
    <p>A store of your own, in which you make sample events for your apps: customers, orders and subscriptions.</p>
    ${
      store === undefined || !isMember
        ? postForm({
            action: `${root}/account/sandbox-store`,
            hidden: { nonce: signedIn.nonce(session, FORM) },
            submit: store === undefined ? 'Create sandbox store' : 'Return to the sandbox store',
          })
        : html`<div class="buttons">
            <a class="button quiet" href="${pathOfStore(store.id, baseUrl)}">Open the sandbox store</a>
          </div>`
    }
  </div>`;
}

export function createSandboxForm(deps: PagesDeps): RawHandler {
  return deps.signedIn.form(
    () => FORM,
    async ({ now }, { userId }) => {
      const store = await provideSandbox(deps, userId, { actor: inPerson(userId), now });
      return redirectAnswer(pathOfStore(store.id, deps.baseUrl));
    },
  );
}
