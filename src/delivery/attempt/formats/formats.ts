/** The `format` values of a webhook: body, content type, and use of the key. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { renderHal } from '#hypermedia/hal.ts';
import type { EventRow } from '../event-sql.ts';
import { automationText } from './automation.ts';
import { siteItemText } from './sitebuilder.ts';

type Format = {
  contentType: string;
  /** Required properties, included even if `fields=` does not name them. */
  needs: readonly string[];
  write: (document: Document, event: EventRow, naming: Naming) => string;
  /**
   * `signs`: the key signs the body. `opens`: the key is a bearer token of the receiving platform and must stay
   * confidential.
   */
  key: 'signs' | 'opens';
  /**
   * Whether bodies are encrypted over plain http if there is a key. Platforms with a format of their own could not
   * decrypt them.
   */
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
