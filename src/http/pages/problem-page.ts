/** Renders a Problem as a page, for a person whose form or link was rejected. */
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import type { Problem } from '#core/problem.ts';
import { htmlAnswer } from '../answers.ts';
import { titleOf } from '../errors.ts';
import type { RawResponse } from '../route.ts';

/**
 * Returns the page. `logref` is shown for server errors, to find the line in the operator's log. `home` is the path of
 * the link below.
 */
export function problemPage(problem: Problem, logref: string, home: string): RawResponse {
  const title = titleOf(problem.status);
  const main = html`<div class="card">
    <h1>${title}</h1>
    ${problem.faults.map(({ message }) => html`<p class="alert" role="alert">${message}.</p>`)}
    ${problem.status >= 500 && html`<p class="soft">Reference: <code>${logref}</code></p>`}
    <p><a href="${home}">Your account</a></p>
  </div>`;
  return htmlAnswer(problem.status, shell({ title, main }), { headers: problem.headers });
}
