/**
 * grant_type=authorization_code (RFC 6749 §4.1.3): one statement authenticates the client and finds the code, a table of
 * checks follows in the order of the API contract, and one statement redeems the code.
 */
import { HALCYON } from '#changelog/changelog.ts';
import { tokenErrors, TokenRefusal, type TokenFault } from '../errors.ts';
import { issueAccessToken, issueRefreshToken, tokenAnswer } from '../issue.ts';
import { verifierFits } from '../pkce.ts';
import type { AuthenticatedClient } from '../oauth-sql.ts';
import { endGrant } from '../end-grant.ts';
import { hashToken, looksLike } from '../tokens.ts';
import type { Exchange, GrantHandler } from './exchange.ts';
import { findClientWithCode, redeemCode, type CodeRow } from './grants-sql.ts';

/** The form that contains the code, and the authenticated client. */
type Presented = Pick<Exchange, 'form' | 'now'> & { client: AuthenticatedClient };
type Step = (code: CodeRow, presented: Presented) => TokenFault | undefined;

const forThisClient: Step = (code, { client }) => (code.client === client.id ? undefined : tokenErrors.unknownCode);

/** Returns the redirect_uri of the form, or a legacy client's only registered one. */
const effectiveRedirectUri = ({ form, client }: Presented): string | null =>
  form.redirect_uri ?? client.impliedRedirectUri;

const redirectUriGiven: Step = (_code, presented) =>
  effectiveRedirectUri(presented) === null ? tokenErrors.noRedirectUri : undefined;

/** Requires exactly the address that the code was sent to (RFC 6749 §4.1.3). */
const redirectUriSame: Step = (code, presented) =>
  effectiveRedirectUri(presented) === code.redirectUri ? undefined : tokenErrors.otherRedirectUri;

/** Requires a challenge of a public client, whose only authentication is the verifier (RFC 9700 §2.1.1). */
const challenged: Step = (code, { client }) =>
  client.isPublic && code.codeChallenge === null ? tokenErrors.noChallenge : undefined;

const verifierMatches: Step = (code, { form }) =>
  verifierFits(form.code_verifier, code.codeChallenge) ? undefined : tokenErrors.wrongVerifier;

/** Precedes the check of expiry, because reuse after the 30 seconds also shows that the code has leaked. */
const unused: Step = (code) => (code.used ? tokenErrors.usedCode : undefined);

const grantActive: Step = (code) => (code.revoked || code.disabled ? tokenErrors.revokedGrant : undefined);

const fresh: Step = (code, { now }) => (now < code.expires ? undefined : tokenErrors.expiredCode);

// oxfmt-ignore
const steps: readonly (readonly [what: string, step: Step])[] = [
  ['client binding', forThisClient   ],
  ['redirect_uri',   redirectUriGiven],
  ['redirect_uri',   redirectUriSame ],
  ['PKCE',           challenged      ],
  ['PKCE',           verifierMatches ],
  ['used once',      unused          ],
  ['grant active',   grantActive     ],
  ['30 seconds',     fresh           ],
];

/** Revokes the grant: a code that its client presents twice has leaked (RFC 6749 §4.1.2, RFC 9700 §4.5). */
async function refuseReuse({ grantId }: CodeRow, exchange: Exchange): Promise<never> {
  const { origin, now } = exchange;
  await endGrant(exchange, { grantId, action: 'code_reused', actor: HALCYON, origin, now });
  throw new TokenRefusal(tokenErrors.usedCode);
}

export const exchangeCode: GrantHandler = async (exchange) => {
  const { sql, authenticate, refuse, form, lifetimes, now } = exchange;
  if (form.code === undefined) return refuse(tokenErrors.noCode);
  if (!looksLike('authorizationCode', form.code)) return refuse(tokenErrors.unknownCode);
  const hash = hashToken(form.code);
  const { client, code } = await authenticate((claim) => findClientWithCode(sql, claim, hash));
  if (code === undefined) throw new TokenRefusal(tokenErrors.unknownCode);
  for (const [, step] of steps) {
    const fault = step(code, { client, form, now });
    if (fault === tokenErrors.usedCode) return refuseReuse(code, exchange);
    if (fault !== undefined) throw new TokenRefusal(fault);
  }
  const [access, refresh] = [issueAccessToken(now, lifetimes), issueRefreshToken(now, lifetimes)];
  const isFirst = await redeemCode(sql, hash, { access: access.stored, refresh: refresh.stored }, now);
  // A lost race is reuse too: which of the two requests was the attacker's is unknown, so the winner's tokens are
  // revoked as well.
  if (!isFirst) return refuseReuse(code, exchange);
  return tokenAnswer({ access: access.value, refresh: refresh.value }, code, lifetimes);
};
