// Counters, gauges and histograms of one daemon, in the Prometheus text format.

type Labels = Record<string, string>;
const BUCKETS_MS = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000, 60_000];

/** For numbers of things: 1, 2, 5, 10, … */
const BUCKETS_COUNT = Array.from(
  { length: 25 },
  (_, i) => [1, 2, 5][i % 3]! * 10 ** Math.floor(i / 3),
);

type Histogram = { counts: number[]; sum: number; count: number };
const newHistogram = (buckets: readonly number[]): Histogram => ({
  counts: buckets.map(() => 0),
  sum: 0,
  count: 0,
});

export type Metrics = {
  count(name: string, labels?: Labels, by?: number): void;
  gauge(name: string, read: () => number | Promise<number>): void;
  observeMs(name: string, ms: number, labels?: Labels): void;
  /** Adds a number of things to a histogram. */
  observe(name: string, value: number, labels?: Labels): void;
  text(): Promise<string>;
};

const escapeLabel = (value: string) =>
  /[\\"\n]/.test(value)
    ? value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n')
    : value;

/**
 * A value for every set of labels, in a tree of their names and values, so that the text of a set
 * is built only once.
 */
class Series<T> {
  readonly #root: Branch<T> = newBranch('');
  readonly #make: () => T;
  readonly #all: Branch<T>[] = [];

  constructor(make: () => T) {
    this.#make = make;
  }

  at(labels: Labels | undefined): T {
    let at = this.#root;
    for (const name in labels) at = getBranch(at, name, labels[name]!);
    if (at.value === undefined) {
      at.value = this.#make();
      this.#all.push(at);
    }
    return at.value;
  }

  *each(): Generator<[labels: string, value: T]> {
    for (const { text, value } of this.#all) yield [text, value!];
  }
}

type Branch<T> = {
  text: string;
  value: T | undefined;
  names: Map<string, Map<string, Branch<T>>>;
};

function newBranch<T>(text: string): Branch<T> {
  return { text, value: undefined, names: new Map() };
}

function getBranch<T>({ names, text }: Branch<T>, name: string, value: string): Branch<T> {
  let values = names.get(name);
  if (values === undefined) {
    values = new Map();
    names.set(name, values);
  }
  let found = values.get(value);
  if (found === undefined) {
    found = newBranch(`${text}${text === '' ? '' : ','}${name}="${escapeLabel(value)}"`);
    values.set(value, found);
  }
  return found;
}

const inBraces = (inner: string) => (inner === '' ? '' : `{${inner}}`);

export function makeMetrics(daemon: string): Metrics {
  const counters = new Map<string, Series<{ count: number }>>();
  const gauges = new Map<string, () => number | Promise<number>>();
  /** By full name. */
  const histograms = new Map<string, { buckets: readonly number[]; series: Series<Histogram> }>();
  const own = `daemon="${daemon}"`;
  const withOwn = (inner: string) => (inner === '' ? own : `${own},${inner}`);

  const writeHistogram = (
    name: string,
    buckets: readonly number[],
    series: Series<Histogram>,
  ): string[] => {
    const lines = [`# TYPE agentd_${name} histogram`];
    for (const [inner, h] of series.each()) {
      let below = 0;
      for (const [i, bucket] of buckets.entries()) {
        below += h.counts[i]!;
        lines.push(`agentd_${name}_bucket${inBraces(`${withOwn(inner)},le="${bucket}"`)} ${below}`);
      }
      lines.push(`agentd_${name}_bucket${inBraces(`${withOwn(inner)},le="+Inf"`)} ${h.count}`);
      lines.push(`agentd_${name}_sum${inBraces(withOwn(inner))} ${h.sum}`);
      lines.push(`agentd_${name}_count${inBraces(withOwn(inner))} ${h.count}`);
    }
    return lines;
  };

  const addTo = (
    name: string,
    buckets: readonly number[],
    value: number,
    labels: Labels | undefined,
  ): void => {
    let found = histograms.get(name);
    if (found === undefined) {
      found = { buckets, series: new Series(() => newHistogram(buckets)) };
      histograms.set(name, found);
    }
    const h = found.series.at(labels);
    const bucket = buckets.findIndex((limit) => value <= limit);
    if (bucket >= 0) h.counts[bucket]!++;
    h.sum += value;
    h.count++;
  };

  return {
    count(name, labels, by = 1) {
      let series = counters.get(name);
      if (series === undefined) {
        series = new Series(() => ({ count: 0 }));
        counters.set(name, series);
      }
      series.at(labels).count += by;
    },
    gauge: (name, read) => void gauges.set(name, read),
    observeMs: (name, ms, labels) => addTo(`${name}_ms`, BUCKETS_MS, ms, labels),
    observe: (name, value, labels) => addTo(name, BUCKETS_COUNT, value, labels),
    async text() {
      const lines: string[] = [];
      for (const [name, series] of counters) {
        lines.push(`# TYPE agentd_${name}_total counter`);
        for (const [inner, { count }] of series.each())
          lines.push(`agentd_${name}_total${inBraces(withOwn(inner))} ${count}`);
      }
      for (const [name, read] of gauges) {
        const value = await read();
        lines.push(`# TYPE agentd_${name} gauge`, `agentd_${name}${inBraces(own)} ${value}`);
      }
      for (const [name, { buckets, series }] of histograms)
        lines.push(...writeHistogram(name, buckets, series));
      return `${lines.join('\n')}\n`;
    },
  };
}
