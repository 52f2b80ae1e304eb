/** "Authorization server" of the security requirements, clause by clause in its words and order, with the tests of each. */
import { browser } from './lines/browser.ts';
import type { Line } from './lines/clause.ts';
import { clients } from './lines/clients.ts';
import { codes } from './lines/codes.ts';
import { protocol } from './lines/protocol.ts';
import { redirects } from './lines/redirects.ts';
import { tokens } from './lines/tokens.ts';

export const lines: readonly Line[] = [
  { line: 'Redirects', clauses: redirects },
  { line: 'Codes', clauses: codes },
  { line: 'Tokens', clauses: tokens },
  { line: 'Client authentication', clauses: clients },
  { line: 'Browser', clauses: browser },
  { line: 'Protocol', clauses: protocol },
];
