/** The one answer that a client secret ever stands in. */
import { html } from '#hypermedia/markup.ts';
import { appsPage, pathOf } from './visit.ts';

/** `secret` is null for a public client, which has none. `note` says what became of the secret before. */
export const secretPage = (view: {
  root: string;
  title: string;
  clientId: string;
  secret: string | null;
  note?: string;
}): string =>
  appsPage(
    view.root,
    view.title,
    html`<div class="card">
      <h1>${view.title}</h1>
      ${
        view.secret !== null &&
        html`<p class="good" role="status">
          Copy the client secret now and keep it where only your app can read it. It is shown this once.
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
      ${view.secret === null && html`<p>A public app has no secret: it proves itself with PKCE at each sign-in.</p>`}
      ${view.note !== undefined && html`<p>${view.note}</p>`}
      <div class="buttons">
        <a class="button quiet" href="${pathOf(view.root, view.clientId)}">Go on to its page</a>
      </div>
    </div>`,
  );
