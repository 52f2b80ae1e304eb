/**
 * Loaded before the program: ends the process, as a crash in native code would, when bytes with the marker are signed.
 * The program cannot handle it, and none of its code runs afterwards.
 */
import { Hmac } from 'node:crypto';

const MARKER = 'ends-the-process';

type Update = (this: Hmac, data: string | Uint8Array) => Hmac;
// eslint-disable-next-line typescript/unbound-method -- Called with its own receiver.
const { update } = Hmac.prototype as { update: Update };

Hmac.prototype.update = function (this: Hmac, data: string | Uint8Array): Hmac {
  if (Buffer.from(data as Uint8Array).includes(MARKER)) {
    process.kill(process.pid, 'SIGKILL');
    for (;;);
  }
  return update.call(this, data);
};
