/** A generated year of some hundred subscriptions, from a seed: the versions to publish on each day. */

export type Change = {
  id: string;
  frequency: string;
  price: string;
  options: string[];
  quantity: number;
  currency: string;
  isActive: boolean;
  startDay: string | null;
  endDay: string | null;
};

const DAY_MS = 86_400_000;
export function dayAfter(day: string, days: number): string {
  return new Date(new Date(`${day}T00:00:00Z`).getTime() + days * DAY_MS).toISOString().slice(0, 10);
}

const FREQUENCIES = ['1m', '1m', '3m', '1y', '.5m', '2w', '1w', '30d', '1d', '7m', '2y'];
const CURRENCIES = ['EUR', 'EUR', 'EUR', 'USD', 'JPY'];

/** The versions to publish for each day; a subscription may change several times on one. */
export function madeUp(days: readonly string[], subscriptions: number, random: () => number): Map<string, Change[]> {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const price = () => `${Math.floor(random() * 200)}.${String(Math.floor(random() * 10_000)).padStart(4, '0')}`;
  const near = (day: string) => (random() < 0.5 ? null : dayAfter(day, Math.floor(random() * 60) - 20));
  const changes = new Map<string, Change[]>(days.map((day) => [day, []]));
  for (let n = 0; n < subscriptions; n += 1) {
    let at = Math.floor(random() * days.length);
    let one: Change | undefined;
    while (at < days.length) {
      const day = days[at] ?? '';
      const last: Change = one ?? {
        id: `s-${n}`,
        frequency: pick(FREQUENCIES),
        price: price(),
        options: [],
        quantity: 1,
        currency: pick(CURRENCIES),
        isActive: true,
        startDay: near(day),
        endDay: null,
      };
      const change: Partial<Change> = pick([
        { price: price() },
        { frequency: pick(FREQUENCIES) },
        { currency: pick(CURRENCIES) },
        { isActive: random() < 0.6 },
        { startDay: near(day) },
        { endDay: near(day) },
        { quantity: Math.floor(random() * 4) },
        { options: Array.from({ length: Math.floor(random() * 3) }, price) },
        {},
      ]);
      one = { ...last, ...change };
      changes.get(day)?.push(one);
      at += Math.floor(random() * 45);
    }
  }
  return changes;
}
