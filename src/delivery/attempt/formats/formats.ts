/** The `format` values of a webhook: body, content type, and use of the key. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { renderHal } from '#hypermedia/hal.ts';
import type { EventRow } from '../event-sql.ts';
import { automationText } from './automation.ts';
import { cloudEventHeaders, cloudEventText, DATA_TYPE } from './cloudevents.ts';
import { siteItemText } from './sitebuilder.ts';

export type FormatName = 'json' | 'partner_automation' | 'partner_sitebuilder' | 'cloudevents' | 'cloudevents_binary';

type Format = {
  contentType: string;
  /** Required properties, included even if `fields=` does not name them. */
  needs: readonly string[];
  /** Writes the body; absent if it is the representation that GET returns. */
  write?: (document: Document, event: EventRow, naming: Naming) => string;
  /** Headers of the event, names and values alternating. */
  headersOf?: (event: EventRow) => string[];
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

export const formats: { readonly [name in FormatName]: Format } = {
  json: { contentType: 'application/hal+json', needs: [], key: 'signs', isEncrypted: true },
  cloudevents: {
    contentType: 'application/cloudevents+json',
    needs: [],
    write: (document, event, naming) => cloudEventText(event, renderHal(document, naming)),
    key: 'signs',
    isEncrypted: false,
  },
  cloudevents_binary: {
    contentType: DATA_TYPE,
    needs: [],
    headersOf: cloudEventHeaders,
    key: 'signs',
    isEncrypted: false,
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
};
