/**
 * The operator's brand: one per process, set when the process starts. It is not passed as an argument, because every page has it, also
 * those of errors, and no function decides by it.
 */
export type Brand = {
  name: string;
  /** The path of the logo. */
  logoPath?: string | undefined;
  /** The accent colours in light and dark mode, as `#rrggbb`. */
  accent?: { light: string; dark: string } | undefined;
};

/** Returns the style rules of the accent colour, which follow those of the style sheet. */
export function accentRules({ accent }: Brand): string {
  if (accent === undefined) return '';
  const { light, dark } = accent;
  return `:root{--accent:${light}}\n@media (prefers-color-scheme:dark){:root{--accent:${dark}}}\n`;
}
