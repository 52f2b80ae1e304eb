/** The actions of a Siren document, with generated values for each field. */
import { randomUUID } from 'node:crypto';
import type { Values } from './readers.ts';

export type SirenField = {
  name: string;
  class: readonly string[];
  type: string;
  min?: number;
  value?: string | number | readonly { value: string | number; selected?: boolean }[];
};
export type SirenAction = { name: string; method: string; href: string; fields?: readonly SirenField[] };

export function actionsIn(text: string): readonly SirenAction[] {
  return (JSON.parse(text) as { actions?: readonly SirenAction[] }).actions ?? [];
}

/** Values of fields by name, for rules that no schema can express. */
const byName: Readonly<Record<string, string>> = {
  email: 'crawler@example.com',
  domain: 'crawler.example.com',
  time_zone: 'Europe/Berlin',
  query: 'fields=id',
  filter: 'id:not=',
  url: 'https://crawler.example.com/hook',
  // With it, a url would not be allowed.
  is_held: '0',
  redirect_uris: 'https://crawler.example.com/callback',
  headers: '',
  since: '2026-06-30T00:00:00+0000',
  until: '2026-07-30T00:00:00+0000',
  webhooks: '',
};

function made({ name, type, min, value }: SirenField): string {
  const named = byName[name];
  if (named !== undefined) return named;
  // A new one each time.
  if (name === 'encryption_key') return `made up by a crawler: ${randomUUID()}`;
  if (Array.isArray(value)) {
    const choices = value as readonly { value: string | number; selected?: boolean }[];
    return String((choices.find(({ selected }) => selected === true) ?? choices[0])?.value ?? '');
  }
  if (type === 'number') return String(min ?? 1);
  return typeof value === 'string' && value !== '' ? value : 'made up by a crawler';
}

/** Returns a value for each field (`all`), or for the required ones. Of fields that exclude each other, one is filled. */
export function fill({ fields = [] }: SirenAction, all: boolean): Values {
  // It ends the resource that the other actions need.
  if (all && fields.some(({ name }) => name === 'finish')) return { finish: '1' };
  const wanted = fields.filter((field) => {
    const isRequired = field.class.includes('required');
    // A recovery of what was loaded has no other selection.
    if (field.name === 'loaded') return false;
    // A resend to one webhook needs no event.
    const isNarrowing = field.name === 'event' && !isRequired;
    return (all || isRequired) && field.name !== 'events' && !isNarrowing && byName[field.name] !== '';
  });
  // A requirement of a format is no property of its schema.
  const needed = fields.filter(({ name }) => name === 'encryption_key');
  return Object.fromEntries(
    [...new Set([...wanted, ...needed])].map((field) => [
      field.name,
      field.class.includes('multiple') ? [made(field)] : made(field),
    ]),
  );
}
