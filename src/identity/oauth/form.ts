/** The form of /token, /revoke and /introspect, read as the protocol wants it. */
import type { RawRequest } from '#http/route.ts';
import { tokenErrors, TokenRefusal } from './errors.ts';

const PARAMETERS = [
  'grant_type',
  'client_id',
  'client_secret',
  'code',
  'redirect_uri',
  'code_verifier',
  'refresh_token',
  'scope',
  'token',
  // Read so that it is not given twice, and then not used: a token's prefix says what it is (RFC 7009 §2.1, RFC 7662 §2.1).
  'token_type_hint',
] as const;

/** A parameter without a value counts as absent (RFC 6749 §3.2). Unknown ones are ignored. */
export type Form = Readonly<Partial<Record<(typeof PARAMETERS)[number], string>>>;

/** Throws `invalid_request` for another content type and for a parameter that comes twice (RFC 6749 §3.2). */
export const readForm = ({ contentType, form }: Pick<RawRequest, 'contentType' | 'form'>): Form => {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType)) throw new TokenRefusal(tokenErrors.notAForm);
  const read: Partial<Record<(typeof PARAMETERS)[number], string>> = {};
  for (const name of PARAMETERS) {
    const [value = '', ...others] = form.getAll(name);
    if (others.length > 0) throw new TokenRefusal(tokenErrors.repeated);
    if (value !== '') read[name] = value;
  }
  return read;
};
