/** Parses the form of /token, /device_authorization, /revoke and /introspect. */
import type { RawRequest } from '#http/route.ts';
import { tokenErrors, TokenRefusal } from './errors.ts';

const PARAMETERS = [
  'grant_type',
  'client_id',
  'client_secret',
  'client_assertion',
  'code',
  'redirect_uri',
  'code_verifier',
  'refresh_token',
  'device_code',
  'scope',
  'token',
  // Listed to reject repetition, otherwise ignored: the prefix of a token determines its type (RFC 7009 §2.1, RFC 7662
  // §2.1).
  'token_type_hint',
] as const;

/** A parameter without a value counts as absent, and unknown parameters are ignored (RFC 6749 §3.2). */
export type Form = Readonly<Partial<Record<(typeof PARAMETERS)[number], string>>>;

/** Parses the form. Throws `invalid_request` for another content type and for a repeated parameter (RFC 6749 §3.2). */
export function readForm({ contentType, form }: Pick<RawRequest, 'contentType' | 'form'>): Form {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType)) throw new TokenRefusal(tokenErrors.notAForm);
  const parameters: Partial<Record<(typeof PARAMETERS)[number], string>> = {};
  for (const name of PARAMETERS) {
    const [value = '', ...others] = form.getAll(name);
    if (others.length > 0) throw new TokenRefusal(tokenErrors.repeated);
    if (value !== '') parameters[name] = value;
  }
  return parameters;
}
