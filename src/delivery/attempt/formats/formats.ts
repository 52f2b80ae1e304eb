/** What a webhook's `format` makes of an event: a column each for what its body is, and for what its key does. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { renderHal } from '#hypermedia/hal.ts';
import type { EventRow } from '../event-sql.ts';
import { automationText } from './automation.ts';
import { siteItemText } from './sitebuilder.ts';

type Format = {
  contentType: string;
  /** Properties that it cannot do without, also where `fields=` does not name them. */
  needs: readonly string[];
  write: (document: Document, event: EventRow, naming: Naming) => string;
  /** `signs`: the body. `opens`: it is a token of the platform that receives, and nobody may see it on the way. */
  key: 'signs' | 'opens';
  /** Over plain http with a key. Platforms that take a form of their own could not read it. */
  isEncrypted: boolean;
};

export const formats = {
  json: {
    contentType: 'application/hal+json',
    needs: [],
    write: (document, _event, naming) => renderHal(document, naming),
    key: 'signs',
    isEncrypted: true,
  },
  partner_automation: {
    contentType: 'application/json',
    needs: ['id'],
    write: automationText,
    key: 'signs',
    isEncrypted: false,
  },
  partner_sitebuilder: {
    contentType: 'application/json',
    needs: ['name', 'slug'],
    write: siteItemText,
    key: 'opens',
    isEncrypted: false,
  },
} as const satisfies Readonly<Record<string, Format>>;

export type FormatName = keyof typeof formats;
