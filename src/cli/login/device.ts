/** Authorizes a terminal without a browser: the user enters a code in a browser elsewhere (RFC 8628). */
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '#core/clock.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Login } from '../session/credentials.ts';
import { pollDeviceCode, requestDeviceCode, type DeviceCode, type Endpoints } from '../session/tokens.ts';
import type { Terminal } from '../terminal.ts';

/** The seconds by which the interval grows after `slow_down` (RFC 8628 §3.5), and while the server does not answer. */
const SLOWER_SECONDS = 5;

/** Returns the state of the code; a server that does not answer is asked again later. */
async function poll(endpoints: Endpoints, code: DeviceCode, signal: AbortSignal): ReturnType<typeof pollDeviceCode> {
  try {
    return await pollDeviceCode(endpoints, code, { now: systemClock.now(), signal });
  } catch (error) {
    if (error instanceof UserError && error.exitCode === EXIT.unreachable) return 'slower';
    throw error;
  }
}

/** Prints the address and the code, and polls until the user has decided, the code has expired, or `signal` aborts. */
export async function authorizeByDevice(
  deviceEndpoint: string,
  endpoints: Endpoints,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<Login> {
  const code = await requestDeviceCode(deviceEndpoint);
  const { verificationUri, userCode } = code;
  terminal.warn(
    `Open this address in a browser, on any device:\n\n  ${verificationUri}\n\nand enter the code: ${userCode}\n`,
  );
  for (let seconds = code.intervalSeconds; ;) {
    await pause(seconds * 1_000, undefined, { signal });
    const state = await poll(endpoints, code, signal);
    if (typeof state === 'object') return state;
    if (state === 'slower') seconds += SLOWER_SECONDS;
  }
}
