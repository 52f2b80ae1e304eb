/**
 * Parses Prometheus' text format 0.0.4 and throws on violations of its specification. The parsers on npm skip what they do not
 * understand.
 */
type Sample = { name: string; labels: Readonly<Record<string, string>>; value: number };

export type Exposition = {
  /** The type of each metric by name. */
  types: ReadonlyMap<string, string>;
  samples: readonly Sample[];
  /** Returns the sum of the samples with this name and all these labels; undefined if there is none. */
  value: (name: string, labels?: Readonly<Record<string, string>>) => number | undefined;
};

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;
const SUFFIXES = /_(?:bucket|sum|count)$/;

function demand(holds: boolean, line: string, what: string): void {
  if (!holds) throw new SyntaxError(`${what}: ${line}`);
}

function labelsOf(text: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < text.length) {
    const found = LABEL.exec(text);
    if (found === null) throw new SyntaxError(`broken labels: ${line}`);
    const [, name = '', value = ''] = found;
    demand(!Object.hasOwn(labels, name), line, 'a duplicate label');
    labels[name] = value;
  }
  return labels;
}

/** Parses a number like Go's `ParseFloat`, as specified: NaN and Inf in any letter case. */
function numberOf(text: string, line: string): number {
  if (/^nan$/i.test(text)) return NaN;
  const value = Number(text.replace(/^([+-]?)inf$/i, '$1Infinity'));
  demand(!Number.isNaN(value), line, 'no number');
  return value;
}

/** Checks each series of a histogram: cumulative buckets, the last one `+Inf` and equal to `_count`, and a `_sum`. */
function demandHistogram(name: string, samples: readonly Sample[]): void {
  const own = samples.filter((sample) => sample.name.startsWith(`${name}_`));
  const series = Map.groupBy(own, ({ labels: { le: _le, ...rest } }) => JSON.stringify(rest));
  for (const [labels, members] of series) {
    const buckets = members.filter((sample) => sample.name === `${name}_bucket`);
    const [sums, counts] = ['sum', 'count'].map((part) => members.filter((one) => one.name === `${name}_${part}`));
    demand(sums?.length === 1 && counts?.length === 1, `${name}${labels}`, 'not exactly one sum and one count');
    const bounds = buckets.map(({ labels: { le = '' } }) => numberOf(le, name));
    const grows = (values: readonly number[]) =>
      values.every((value, at) => at === 0 || value >= (values[at - 1] ?? 0));
    demand(grows(bounds) && grows(buckets.map(({ value }) => value)), `${name}${labels}`, 'buckets that decrease');
    demand(bounds.at(-1) === Infinity && buckets.at(-1)?.value === counts?.[0]?.value, name, 'no complete +Inf bucket');
  }
}

export function readExposition(text: string): Exposition {
  demand(text.endsWith('\n'), '', 'the last line has no line end');
  const types = new Map<string, string>();
  const helped = new Set<string>();
  const samples: Sample[] = [];
  const seen = new Set<string>();
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (keyword !== undefined) {
      demand(NAME.test(name), line, 'no name');
      if (keyword === 'HELP') demand(helped.size !== helped.add(name).size, line, 'explained twice');
      else {
        demand(
          /^(?:counter|gauge|histogram|summary|untyped)$/.test(rest) && !types.has(name),
          line,
          'not exactly one type',
        );
        types.set(name, rest);
      }
      continue;
    }
    const [, sampled = '', inBraces = '', value = ''] = SAMPLE.exec(line) ?? [];
    const metric = types.has(sampled) ? sampled : sampled.replace(SUFFIXES, '');
    demand(types.has(metric) && helped.has(metric), line, 'a sample without a preceding declaration');
    const labels = labelsOf(inBraces, line);
    const named = Object.entries(labels).map(([label, is]) => `${label}=${JSON.stringify(is)}`);
    const key = [sampled, ...named.toSorted()].join(' ');
    demand(seen.size !== seen.add(key).size, line, 'a duplicate series');
    samples.push({ name: sampled, labels, value: numberOf(value, line) });
  }
  for (const [name, type] of types) if (type === 'histogram') demandHistogram(name, samples);
  return {
    types,
    samples,
    value: (name, labels = {}) => {
      const wanted = Object.entries(labels);
      const found = samples.filter((one) => one.name === name && wanted.every(([key, is]) => one.labels[key] === is));
      return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
    },
  };
}

export async function scrape(origin: string): Promise<Exposition> {
  const response = await fetch(`${origin}/metrics`);
  if (!response.ok) throw new Error(`/metrics answered ${response.status}`);
  return readExposition(await response.text());
}
