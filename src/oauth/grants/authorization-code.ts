/**
 * grant_type=authorization_code (RFC 6749 §4.1.3): the checks as a table in the contract's order, then the one statement
 * that uses the code up. With the client's authentication that makes three statements.
 */
import { tokenErrors, TokenRefusal, type TokenFault } from '../errors.ts';
import { mintPair, tokenAnswer } from '../issue.ts';
import { verifierFits } from '../pkce.ts';
import { hashToken, looksLike } from '../tokens.ts';
import type { Exchange, Grant } from './exchange.ts';
import { findCode, redeemCode, revokeGrant, type CodeRow } from './queries.ts';

type Step = (code: CodeRow, exchange: Exchange) => TokenFault | undefined;

const forThisClient: Step = (code, { client }) => (code.client === client.id ? undefined : tokenErrors.unknownCode);

const redirectUriGiven: Step = (_code, { form }) =>
  form.redirect_uri === undefined ? tokenErrors.noRedirectUri : undefined;

/** Octet for octet the address that the code was sent to (RFC 6749 §4.1.3). */
const redirectUriSame: Step = (code, { form }) =>
  form.redirect_uri === code.redirectUri ? undefined : tokenErrors.otherRedirectUri;

const verifierProves: Step = (code, { form }) =>
  verifierFits(form.code_verifier, code.codeChallenge) ? undefined : tokenErrors.wrongVerifier;

/** Before expiry, because a code that comes back after its 30 seconds tells the same: somebody else has it. */
const unused: Step = (code) => (code.used ? tokenErrors.usedCode : undefined);

const standing: Step = (code) => (code.revoked ? tokenErrors.revokedGrant : undefined);

const fresh: Step = (code, { now }) => (now < code.expires ? undefined : tokenErrors.expiredCode);

// oxfmt-ignore
const steps: readonly (readonly [what: string, step: Step])[] = [
  ['client binding', forThisClient   ],
  ['redirect_uri',   redirectUriGiven],
  ['redirect_uri',   redirectUriSame ],
  ['PKCE',           verifierProves  ],
  ['used once',      unused          ],
  ['not revoked',    standing        ],
  ['30 seconds',     fresh           ],
];

/** A code that its own client presents twice has leaked: what was made from it ends (RFC 6749 §4.1.2, RFC 9700 §4.5). */
const refuseReuse = async (code: CodeRow, { sql, now }: Exchange): Promise<never> => {
  await revokeGrant(sql, code.grantId, now);
  throw new TokenRefusal(tokenErrors.usedCode);
};

export const exchangeCode: Grant = async (exchange) => {
  const { sql, form, lifetimes, now } = exchange;
  if (form.code === undefined) throw new TokenRefusal(tokenErrors.noCode);
  const hash = hashToken(form.code);
  const code = looksLike('authorizationCode', form.code) ? await findCode(sql, hash) : undefined;
  if (code === undefined) throw new TokenRefusal(tokenErrors.unknownCode);
  for (const [, step] of steps) {
    const fault = step(code, exchange);
    if (fault === tokenErrors.usedCode) return refuseReuse(code, exchange);
    if (fault !== undefined) throw new TokenRefusal(fault);
  }
  const { values, stored } = mintPair(now, lifetimes);
  const isFirst = await redeemCode(sql, hash, stored, now);
  // A lost race is reuse like any other: which of the two was the thief cannot be known, so the winner's tokens end too.
  if (!isFirst) return refuseReuse(code, exchange);
  return tokenAnswer(values, code, lifetimes);
};
