/** Asks a question at the terminal, and opens a page in the default browser. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline/promises';

export async function askPerson(
  { stdin: input, stderr: output }: Pick<NodeJS.Process, 'stdin' | 'stderr'>,
  question: string,
): Promise<string> {
  const lines = createInterface({ input, output });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
}

/** Commands by platform. An executable receives its arguments unchanged, a shell does not. */
const OPENERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

export function openPage(platform: string, address: string): void {
  const [command, ...options] = OPENERS[platform] ?? ['xdg-open'];
  const opener = spawn(command, [...options, address], { stdio: 'ignore', detached: true });
  // Ignored: the address is printed as well.
  opener.on('error', () => {});
  opener.unref();
}

/** Returns whether there is a display: X11 or Wayland on Linux, always on other platforms. */
export function hasScreen({ platform, env }: Pick<NodeJS.Process, 'platform' | 'env'>): boolean {
  return platform in OPENERS || Boolean(env['DISPLAY']) || Boolean(env['WAYLAND_DISPLAY']);
}
