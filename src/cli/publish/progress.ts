/** Formats the progress line of `publish`. */

export type Done = { events: number; bytes: number; seconds: number };

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

const two = (n: number): string => String(n).padStart(2, '0');

function span(seconds: number): string {
  const all = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(all / 3600), Math.floor(all / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}

const BAR_WIDTH = 24;

/** Returns the progress line; `totalBytes` is undefined for a pipe. */
export function progressLine({ events, bytes, seconds }: Done, totalBytes: number | undefined): string {
  const rate = `${whole.format(events)} events  ${whole.format(seconds > 0 ? events / seconds : 0)}/s`;
  if (totalBytes === undefined || totalBytes === 0) return `${rate}  ${span(seconds)}`;
  const part = Math.min(1, bytes / totalBytes);
  const full = Math.floor(part * BAR_WIDTH);
  const remaining = part > 0 ? `  ${span((seconds * (1 - part)) / part)} left` : '';
  return `[${'='.repeat(full)}${' '.repeat(BAR_WIDTH - full)}] ${Math.floor(part * 100)} %  ${rate}${remaining}`;
}
