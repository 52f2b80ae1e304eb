/** "Authorization server" of the security requirements, clause by clause in its words and order, with the tests of each. */
import { browser } from './requirements/browser.ts';
import type { Section } from './requirements/clause.ts';
import { clients } from './requirements/clients.ts';
import { codes } from './requirements/codes.ts';
import { protocol } from './requirements/protocol.ts';
import { redirects } from './requirements/redirects.ts';
import { tokens } from './requirements/tokens.ts';

export const sections: readonly Section[] = [
  { section: 'Redirects', clauses: redirects },
  { section: 'Codes', clauses: codes },
  { section: 'Tokens', clauses: tokens },
  { section: 'Client authentication', clauses: clients },
  { section: 'Browser', clauses: browser },
  { section: 'Protocol', clauses: protocol },
];
