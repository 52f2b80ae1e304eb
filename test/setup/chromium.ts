/** Starts Debian's Chromium. If it is not installed, the tests that need it are skipped with a message. */
import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';

const EXECUTABLE = '/usr/bin/chromium';

/** The option for `test()` that skips it, with the reason, if there is no browser. */
export const needsChromium = existsSync(EXECUTABLE)
  ? {}
  : { skip: `CHROMIUM IS NOT INSTALLED: ${EXECUTABLE} is missing, and this test proves nothing here` };

/** Without the background flags Chromium keeps requesting hosts that an offline network refuses. */
const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Starts the browser; it resolves `names` to loopback. */
export function openBrowser(names: readonly string[] = []): Promise<Browser> {
  const rules = names.map((name) => `MAP ${name} 127.0.0.1`);
  const args = rules.length > 0 ? [...ARGS, `--host-resolver-rules=${rules.join(',')}`] : ARGS;
  return chromium.launch({ executablePath: EXECUTABLE, args });
}
