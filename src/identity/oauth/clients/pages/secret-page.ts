/** Renders the only page that contains a client secret. */
import { html } from '#hypermedia/markup.ts';
import { appsPage, pathOf } from './page-context.ts';

/** `secret` is null for a public client. `note` describes the validity of older secrets. */
export function secretPage(view: {
  root: string;
  title: string;
  clientId: string;
  secret: string | null;
  note?: string;
}): string {
  return appsPage(
    view.root,
    view.title,
    html`<div class="card">
      <h1>${view.title}</h1>
      ${
        view.secret !== null &&
        html`<p class="good" role="status">
          Copy the client secret now and store it where only your app can read it. It is shown only once.
        </p>`
      }
      <dl>
        <dt>Client ID</dt>
        <dd><code>${view.clientId}</code></dd>
        ${
          view.secret !== null &&
          html`<dt>Client secret</dt>
            <dd><code>${view.secret}</code></dd>`
        }
      </dl>
      ${view.secret === null && html`<p>A public app has no secret and uses PKCE instead.</p>`}
      ${view.note !== undefined && html`<p>${view.note}</p>`}
      <div class="buttons">
        <a class="button quiet" href="${pathOf(view.root, view.clientId)}">Open the app's page</a>
      </div>
    </div>`,
  );
}
