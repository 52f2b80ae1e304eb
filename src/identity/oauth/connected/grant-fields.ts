/** The properties of a grant (an app that a user has connected) and of an install (the same for the developer of the app). */
import { comparisonsOf, type Fields } from '#http/field-table.ts';

export const grantFields = {
  id: { kind: 'number', from: 'sql' },
  /** The user who connected the app. */
  user_id: { kind: 'number', from: 'sql' },
  // Filters would reveal e-mail addresses to apps, which see none.
  user_email: { kind: 'text', isNullable: true, from: 'code', comparison: 'none' },
  client_id: { kind: 'text', from: 'sql' },
  name: { kind: 'text', from: 'sql' },
  company: { kind: 'text', isNullable: true, from: 'sql' },
  is_verified: { kind: 'boolean', from: 'sql' },
  scope: { kind: 'enumeration', from: 'code' },
  /** Null if the grant is for the account with all its stores. */
  store_id: { kind: 'number', isNullable: true, from: 'sql' },
  date_created: { kind: 'date', from: 'sql' },
  date_used: { kind: 'date', isNullable: true, from: 'sql' },
  /** Null if the access is kept until it is revoked. */
  date_ends: { kind: 'date', isNullable: true, from: 'sql' },
  webhooks_total: { kind: 'number', from: 'code', comparison: 'none' },
  webhooks_active: { kind: 'number', from: 'code', comparison: 'none' },
} as const satisfies Fields;

export const installFields = {
  /** The latest grant for this store, or of this account; represents all of them. */
  id: { kind: 'number', from: 'sql' },
  /** Null if a user has given access to the account with all its stores. */
  store_id: { kind: 'number', isNullable: true, from: 'sql' },
  store_name: { kind: 'text', isNullable: true, from: 'sql' },
  scope: { kind: 'enumeration', from: 'code' },
  date_created: { kind: 'date', from: 'sql' },
  date_used: { kind: 'date', isNullable: true, from: 'sql' },
  /** The webhooks of the app in this store; 0 for an account, whose stores have installs of their own or none. */
  webhooks_total: { kind: 'number', from: 'code', comparison: 'none' },
  webhooks_active: { kind: 'number', from: 'code', comparison: 'none' },
  webhooks_failing: { kind: 'number', from: 'code', comparison: 'none' },
} as const satisfies Fields;

export const GRANT_PROPERTIES = comparisonsOf(grantFields);
export const INSTALL_PROPERTIES = comparisonsOf(installFields);
