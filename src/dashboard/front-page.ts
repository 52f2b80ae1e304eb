/** The page at the API's home for people who are not signed in: what this server is, for whom, and where to go. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { ownPath } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/document-page.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';

type Reader = { who: string; text: string; links: readonly Markup[] };

const reader = ({ who, text, links }: Reader): Markup =>
  html`<section class="card">
    <h2>${who}</h2>
    <p>${text}</p>
    <p class="buttons">${links}</p>
  </section>`;

const button = (href: string, text: string, kind: string): Markup =>
  html`<a class="button ${kind}" href="${href}">${text}</a>`;

/** Creates the page. `signInPath` is the path of the sign-in page, `versionHeader` the header of the API's version. */
export function createFrontPage(addresses: { signInPath: string; versionHeader: string }) {
  const { signInPath, versionHeader } = addresses;
  return ({ document, naming, view }: { document: Document; naming: Naming; view: View }): string => {
    const pathOf = (path: string): string => ownPath(path, naming);
    const apiAddress = new URL(naming.baseUrl).href;
    const readers: readonly Reader[] = [
      {
        who: 'Store owners',
        text: 'Decide which apps may read your store, and see every webhook delivery: what was sent, what the endpoint answered, and how to repair it.',
        links: [button(signInPath, 'Sign in', 'sign-in')],
      },
      {
        who: 'App developers',
        text: 'Let store owners connect your app by OAuth 2.0, read their stores through the API, and receive their events as signed webhooks.',
        links: [button(pathOf('/docs'), 'API documentation', 'quiet read')],
      },
      {
        who: 'Operators',
        text: 'Manage stores, people and apps of this server by the command line or the API. Its state is public, for your load balancer.',
        links: [button(pathOf('/health/ready'), 'Health of this server', 'quiet health')],
      },
    ];
    const title = 'Connect stores with apps';
    const main = html`<div class="intro">
        <h1>${title}</h1>
        <p>
          A store owner gives an app access. The app then reads the data of the store through the API and receives its
          events as signed webhooks.
        </p>
      </div>
      <div class="readers">${readers.map(reader)}</div>
      <section class="card">
        <h2>The API</h2>
        <p>Every resource is a page for people and data for programs. Begin here, and follow the links:</p>
        <pre class="copyable">${'\n'}curl -H '${versionHeader}: 1' ${apiAddress}</pre>
      </section>`;
    return renderDesigned({ document: { ...document, title }, naming, view, main });
  };
}
