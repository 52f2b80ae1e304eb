/**
 * Renders error documents. By convention they embed documents named `error` with a `message` for people, and optionally
 * the `field` at fault and a `logref` for the operator.
 */
import type { Document } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { sentence } from './field.ts';
import { harmless } from './harmless.ts';

function textOf({ properties }: Document, name: string): string | undefined {
  const value = properties.find((property) => property.name === name)?.value;
  return typeof value === 'string' && value !== '' ? harmless(value) : undefined;
}

/** Returns the errors of a document; none if it is not an error document. */
export function errorsIn({ embedded }: Document): readonly Document[] {
  return embedded.flatMap(({ documents }) => documents.filter(({ name }) => name === 'error'));
}

/** Renders the errors for people; the other properties repeat them for protocols. */
export function problemText(errors: readonly Document[]): Markup {
  const references = new Set(errors.flatMap((error) => textOf(error, 'logref') ?? []));
  return html`${errors.map((error) => {
    const message = sentence(textOf(error, 'message') ?? 'An error occurred');
    const field = textOf(error, 'field');
    const isNamed = field === undefined || message.includes(field);
    return html`<p class="alert" role="alert">${message} ${!isNamed && html`<code>${field}</code>`}</p>`;
  })}
  ${references.size > 0 && html`<p class="soft">Reference: <code>${[...references].join(', ')}</code></p>`}`;
}
