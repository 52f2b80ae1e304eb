/**
 * A document that says what went wrong. The convention: it embeds documents named `error`, which have a `message` for people,
 * may name the `field` that is wrong, and a `logref` under which the operator finds it.
 */
import type { Document } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { sentence } from './field.ts';
import { harmless } from './harmless.ts';

const textOf = ({ properties }: Document, name: string): string | undefined => {
  const value = properties.find((property) => property.name === name)?.value;
  return typeof value === 'string' && value !== '' ? harmless(value) : undefined;
};

/** The errors in a document; none where it is not about any. */
export const errorsIn = ({ embedded }: Document): readonly Document[] =>
  embedded.flatMap(({ documents }) => documents.filter(({ name }) => name === 'error'));

/** What a person is told: the rest of such a document repeats it in the words of a protocol. */
export const problemText = (errors: readonly Document[]): Markup => {
  const references = new Set(errors.flatMap((error) => textOf(error, 'logref') ?? []));
  return html`${errors.map((error) => {
    const message = sentence(textOf(error, 'message') ?? 'This did not work');
    const field = textOf(error, 'field');
    const isNamed = field === undefined || message.includes(field);
    return html`<p class="alert" role="alert">${message} ${!isNamed && html`<code>${field}</code>`}</p>`;
  })}
  ${references.size > 0 && html`<p class="soft">Reference: <code>${[...references].join(', ')}</code></p>`}`;
};
