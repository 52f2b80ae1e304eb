/** The section of an app's page about the key that signs its app events. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import type { AppKeys, KeyChange } from '../app-webhook.ts';
import type { ClientView } from './client-page.ts';
import { choice, postForm, type PostForm } from '#identity/accounts/page-kit.ts';
import { pathOf } from './page-context.ts';

const shownKey = (summary: string, key: string | null): Markup =>
  key === null
    ? html`<p class="alert">The key cannot be decrypted. Replace it.</p>`
    : html`<details>
        <summary>${summary}</summary>
        <p><code>${key}</code></p>
      </details>`;

const replaceForm = (
  { root, client, nonce }: ClientView,
  change: KeyChange,
  button: Pick<PostForm, 'fields' | 'submit' | 'style'>,
): Markup =>
  postForm({
    action: `${pathOf(root, client.clientId)}/webhook-key`,
    hidden: { nonce: nonce('replace webhook key'), change },
    ...button,
  });

const beginForm = (view: ClientView): Markup =>
  replaceForm(view, 'begin', {
    fields: choice({
      name: 'at_once',
      label: 'Replace the key immediately',
      hint: `Choose this if the key has leaked. Otherwise deliveries are signed with both keys for ${view.keyOverlapHours} hours.`,
    }),
    submit: 'Create a new key',
  });

const rotation = (view: ClientView, { current, next, rotationEndsAt }: AppKeys & { rotationEndsAt: Date }): Markup =>
  html`<p>Deliveries are signed with both keys until ${shownDate(rotationEndsAt)}, then only with the new one.</p>
    ${shownKey('Show the new key', next)} ${shownKey('Show the older key', current)}
    ${replaceForm(view, 'finish', { submit: 'Use only the new key now', style: 'quiet danger' })}`;

/** The keys are valid in all stores, and only this page and the registration of the app show them after the app was created. */
export function webhookKeyCard(view: ClientView): Markup | false {
  const { client, webhookKeys: keys } = view;
  if (keys === null) return false;
  const { rotationEndsAt } = keys;
  return html`<div class="card">
    <h2>App events</h2>
    <p>
      Events of the app from all stores are sent to <code>${client.webhookUrl}</code>, signed with this key. Each store
      that lets the app in has a webhook for them.
    </p>
    ${
      rotationEndsAt === null
        ? html`${shownKey('Show the key', keys.current)} ${beginForm(view)}`
        : rotation(view, { ...keys, rotationEndsAt })
    }
  </div>`;
}
