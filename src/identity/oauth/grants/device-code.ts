/**
 * grant_type=urn:ietf:params:oauth:grant-type:device_code (RFC 8628 §3.4). One statement finds a code that waits for a decision; an
 * approved code is a row of authorization_code, and redeemed like one.
 */
import { pollDevice, type DeviceState } from '../device/device-sql.ts';
import { tokenErrors, TokenRefusal, type TokenFault } from '../errors.ts';
import { issueAccessToken, issueRefreshToken, tokenAnswer } from '../issue.ts';
import { hashToken, looksLike } from '../tokens.ts';
import type { GrantHandler } from './exchange.ts';
import { findClientWithCode, redeemCode, type CodeRow } from './grants-sql.ts';

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

const undecided: Readonly<Record<Exclude<DeviceState, null>, TokenFault>> = {
  pending: tokenErrors.authorizationPending,
  'too fast': tokenErrors.slowDown,
  denied: tokenErrors.deviceDenied,
  expired: tokenErrors.expiredDevice,
};

function faultOf(code: CodeRow, client: number, now: Date): TokenFault | undefined {
  if (code.client !== client) return tokenErrors.unknownDevice;
  if (code.used) return tokenErrors.usedDevice;
  if (code.revoked || code.disabled) return tokenErrors.revokedGrant;
  return now < code.expires ? undefined : tokenErrors.expiredDevice;
}

export const exchangeDeviceCode: GrantHandler = async ({ sql, authenticate, refuse, form, lifetimes, now }) => {
  if (form.device_code === undefined) return refuse(tokenErrors.noDevice);
  if (!looksLike('deviceCode', form.device_code)) return refuse(tokenErrors.unknownDevice);
  const hash = hashToken(form.device_code);
  const { state } = await authenticate((claim) => pollDevice(sql, claim, hash));
  if (state !== null) throw new TokenRefusal(undecided[state]);
  // In this order: an approval between the two statements is seen by the second.
  const { client, code } = await authenticate((claim) => findClientWithCode(sql, claim, hash));
  const fault = code === undefined ? tokenErrors.unknownDevice : faultOf(code, client.id, now);
  if (code === undefined || fault !== undefined) throw new TokenRefusal(fault ?? tokenErrors.unknownDevice);
  const [access, refresh] = [issueAccessToken(now, lifetimes), issueRefreshToken(now, lifetimes)];
  const isFirst = await redeemCode(sql, hash, { access: access.stored, refresh: refresh.stored }, now);
  // Unlike the reuse of an authorization code this is no sign of theft: a device polls again after a time-out (RFC 8628 §3.5).
  if (!isFirst) throw new TokenRefusal(tokenErrors.usedDevice);
  return tokenAnswer({ access: access.value, refresh: refresh.value }, code, lifetimes);
};
