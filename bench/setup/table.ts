/** Numbers as a person reads them: medians with their spread, in columns. */
import { print } from './run.ts';

/** The value below which `share` (0–1) of the values lie. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

const round = (value: number, digits: number): string =>
  value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** `median (lowest–highest)` of what the rounds gave. */
export function spread(values: readonly number[], digits = 0): string {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return `${round(quantile(values, 0.5), digits)} (${round(low, digits)}–${round(high, digits)})`;
}

/** The quotient round by round, so that what both sides suffered in a round falls out. */
export function ratios(halcyon: readonly number[], rival: readonly number[]): number[] {
  return halcyon.map((value, index) => value / (rival[index] ?? Number.NaN));
}

/** Prints rows under a head, the first column to the left and all others to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)));
  for (const row of [head, widths.map((width) => '-'.repeat(width)), ...rows]) print(line(row).join('  ').trimEnd());
}
