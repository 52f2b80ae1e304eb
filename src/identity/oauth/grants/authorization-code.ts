/**
 * grant_type=authorization_code (RFC 6749 §4.1.3): one statement that authenticates the client and finds the code, the
 * checks as a table in the contract's order, and one statement that uses the code up.
 */
import { HALCYON } from '#changelog/changelog.ts';
import { tokenErrors, TokenRefusal, type TokenFault } from '../errors.ts';
import { issueAccessToken, issueRefreshToken, tokenAnswer } from '../issue.ts';
import { verifierFits } from '../pkce.ts';
import type { AuthenticatedClient } from '../oauth-sql.ts';
import { endGrant } from '../end-grant.ts';
import { hashToken, looksLike } from '../tokens.ts';
import type { Exchange, Grant } from './exchange.ts';
import { findClientWithCode, redeemCode, type CodeRow } from './grants-sql.ts';

/** What comes with the code, and from whom. */
type Presented = Pick<Exchange, 'form' | 'now'> & { client: AuthenticatedClient };
type Step = (code: CodeRow, presented: Presented) => TokenFault | undefined;

const forThisClient: Step = (code, { client }) => (code.client === client.id ? undefined : tokenErrors.unknownCode);

/** A legacy client that leaves it out means its only registered one. */
const meantRedirectUri = ({ form, client }: Presented): string | null => form.redirect_uri ?? client.impliedRedirectUri;

const redirectUriGiven: Step = (_code, presented) =>
  meantRedirectUri(presented) === null ? tokenErrors.noRedirectUri : undefined;

/** Octet for octet the address that the code was sent to (RFC 6749 §4.1.3). */
const redirectUriSame: Step = (code, presented) =>
  meantRedirectUri(presented) === code.redirectUri ? undefined : tokenErrors.otherRedirectUri;

/** In a public client the verifier stands in for the secret (RFC 9700 §2.1.1): without a challenge anybody could redeem. */
const challenged: Step = (code, { client }) =>
  client.isPublic && code.codeChallenge === null ? tokenErrors.noChallenge : undefined;

const verifierProves: Step = (code, { form }) =>
  verifierFits(form.code_verifier, code.codeChallenge) ? undefined : tokenErrors.wrongVerifier;

/** Before expiry, because a code that comes back after its 30 seconds tells the same: somebody else has it. */
const unused: Step = (code) => (code.used ? tokenErrors.usedCode : undefined);

const standing: Step = (code) => (code.revoked || code.disabled ? tokenErrors.revokedGrant : undefined);

const fresh: Step = (code, { now }) => (now < code.expires ? undefined : tokenErrors.expiredCode);

// oxfmt-ignore
const steps: readonly (readonly [what: string, step: Step])[] = [
  ['client binding', forThisClient   ],
  ['redirect_uri',   redirectUriGiven],
  ['redirect_uri',   redirectUriSame ],
  ['PKCE',           challenged      ],
  ['PKCE',           verifierProves  ],
  ['used once',      unused          ],
  ['still standing', standing        ],
  ['30 seconds',     fresh           ],
];

/** A code that its own client presents twice has leaked: what was made from it ends (RFC 6749 §4.1.2, RFC 9700 §4.5). */
const refuseReuse = async ({ grantId }: CodeRow, exchange: Exchange): Promise<never> => {
  const { origin, now } = exchange;
  await endGrant(exchange, { grantId, action: 'code_reused', actor: HALCYON, origin, now });
  throw new TokenRefusal(tokenErrors.usedCode);
};

export const exchangeCode: Grant = async (exchange) => {
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
  // A lost race is reuse like any other: which of the two was the thief cannot be known, so the winner's tokens end too.
  if (!isFirst) return refuseReuse(code, exchange);
  return tokenAnswer({ access: access.value, refresh: refresh.value }, code, lifetimes);
};
