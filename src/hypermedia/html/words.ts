/** Display names of properties, relations and states, and amounts of money as usual for their currency. */
import { LRUCache } from 'lru-cache';
import { isNumber } from '#core/exact-number.ts';
import type { Value } from '../document.ts';

const ABBREVIATIONS: Readonly<Record<string, string>> = {
  api: 'API',
  cloudevents: 'CloudEvents',
  hmac: 'HMAC',
  html: 'HTML',
  id: 'ID',
  ip: 'IP',
  json: 'JSON',
  mrr: 'MRR',
  ok: 'OK',
  pkce: 'PKCE',
  uri: 'URI',
  uris: 'URIs',
  url: 'URL',
};

const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const labels = new Map<string, string>();
/** Names come from schemas, and from publishers, who may send any number of them. */
const LABELS_MAX = 1_000;
const LABELLED_CHARACTERS = 64;

function makeLabel(name: string): string {
  const words = name.replace(/^is_(?=.)/, '').split('_');
  return capitalised(words.map((word) => (Object.hasOwn(ABBREVIATIONS, word) ? ABBREVIATIONS[word] : word)).join(' '));
}

/** Returns the label: `date_created` → `Date created`, `client_id` → `Client ID`, `is_active` → `Active`. */
export function labelOf(name: string): string {
  const known = labels.get(name);
  if (known !== undefined) return known;
  const label = makeLabel(name);
  if (name.length > LABELLED_CHARACTERS) return label;
  if (labels.size >= LABELS_MAX) labels.clear();
  labels.set(name, label);
  return label;
}

/**
 * Returns the text of an enumeration value: `partner_automation` → `Partner automation`; `transaction/created` stays.
 */
export function phraseOf(value: string): string {
  return /^[a-z][a-z0-9_]*(?::[a-z0-9_]+)?$/.test(value) ? labelOf(value).replace(':', ': ') : value;
}

/** A name of several words, of a property or a choice; not a part of an event, an address or a query. */
const NAMED = /(?<![\w/:"=])[a-z]+(?:_[a-z]+)+(?![\w"]|[/:=]\S)/g;

/** Returns the message about a field with the labels that its form shows in place of names. */
export function labelled(message: string, field = ''): string {
  const [name = ''] = field.split('.', 1);
  const text = name !== '' && message.startsWith(`${name} `) ? labelOf(name) + message.slice(name.length) : message;
  return text.replaceAll(NAMED, (word) => inSentence(word));
}

/** Returns the label for the middle of a sentence. */
export function inSentence(name: string): string {
  const label = labelOf(name);
  return /^.[A-Z]/.test(label) ? label : label.charAt(0).toLowerCase() + label.slice(1);
}

const ARTICLE = /^(?:The|All|This|An?)\s+/;
const OF_THIS = /\s+(?:of|to|in|for)\s+(?:this|the|that)\b.*$/;

/** Returns the short title of a link: `The deliveries of this webhook` → `Deliveries`. */
export function shortTitle(title: string): string {
  return capitalised(title.replace(ARTICLE, '').replace(OF_THIS, '')) || title;
}

/** Classes of badges; `''` is the default of the style sheet, for states that end by themselves. */
export type Tone = 'fine' | 'broken' | 'caution' | '' | 'plain';

const TONES: readonly (readonly [tone: Tone, words: string])[] = [
  [
    'fine',
    'ok active approved captured completed delivered done enabled paid sent succeeded success successful verified',
  ],
  [
    'broken',
    'blocked declined disabled error expired failed failing failure gone inactive internal malformed refused rejected timed_out too_large unreachable',
  ],
  ['', 'authorized paused pending queued refunded retrying running stopping voided waiting'],
  ['caution', 'unverified'],
];

const toneOfWord = new Map(TONES.flatMap(([tone, words]) => words.split(' ').map((word) => [word, tone] as const)));

/** Returns the tone of a state according to the part before the colon, as in `timed_out:connect`. */
export function toneOf(state: string): Tone {
  return toneOfWord.get(state.split(':', 1)[0] ?? '') ?? 'plain';
}

const STATES: ReadonlySet<string> = new Set(['state', 'status', 'outcome']);

/** Returns whether a property of this name is a state. */
export function isStateName(name: string): boolean {
  return STATES.has(name);
}

/** There are about 180 currencies, but publishers may send others. Creating a format costs 40 µs. */
const FORMATS_MAX = 200;

/** Returns whether the code is one of ISO 4217 except `XXX` (no currency). */
export function isCurrency(code: string): boolean {
  return /^[A-Za-z]{3}$/.test(code) && code.toUpperCase() !== 'XXX';
}

const formatsWith = (options: Intl.NumberFormatOptions) =>
  new LRUCache<string, Intl.NumberFormat>({
    max: FORMATS_MAX,
    memoMethod: (currency) => new Intl.NumberFormat('en', { style: 'currency', currency, ...options }),
  });

/** Additional digits are kept: a rounded price is another price. */
const exact = formatsWith({ maximumFractionDigits: 20 });
const rounded = formatsWith({});
const withoutCurrency = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

/**
 * Returns `€1,234.50`. Decimals in a text stay exact; undefined for other values; the number alone without a currency.
 */
export function shownMoney(value: Value, currency: string | undefined): string | undefined {
  const text = isNumber(value) || typeof value === 'string' ? String(value) : '';
  if (!/^-?[0-9]{1,30}(?:\.[0-9]{1,20})?$/.test(text)) return undefined;
  if (currency === undefined || !isCurrency(currency)) return text;
  return exact.memo(currency.toUpperCase()).format(text as `${number}`);
}

/** Rounds to the decimals of the currency, or two: for sums, which are not paid. */
export function roundedMoney(value: number, currency: string): string {
  return (isCurrency(currency) ? rounded.memo(currency) : withoutCurrency).format(value);
}
