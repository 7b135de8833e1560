// Counters, gauges and histograms of one daemon, in the Prometheus text format.

type Labels = Record<string, string>;
const BUCKETS_MS = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000, 60_000];

type Histogram = { counts: number[]; sum: number; count: number };
const newHistogram = (): Histogram => ({ counts: BUCKETS_MS.map(() => 0), sum: 0, count: 0 });

export type Metrics = {
  count(name: string, labels?: Labels, by?: number): void;
  gauge(name: string, read: () => number | Promise<number>): void;
  observeMs(name: string, ms: number, labels?: Labels): void;
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
  const histograms = new Map<string, Series<Histogram>>();
  const own = `daemon="${daemon}"`;
  const withOwn = (inner: string) => (inner === '' ? own : `${own},${inner}`);

  const writeHistogram = (name: string, series: Series<Histogram>): string[] => {
    const lines = [`# TYPE agentd_${name}_ms histogram`];
    for (const [inner, h] of series.each()) {
      let below = 0;
      for (const [i, bucket] of BUCKETS_MS.entries()) {
        below += h.counts[i]!;
        lines.push(
          `agentd_${name}_ms_bucket${inBraces(`${withOwn(inner)},le="${bucket}"`)} ${below}`,
        );
      }
      lines.push(`agentd_${name}_ms_bucket${inBraces(`${withOwn(inner)},le="+Inf"`)} ${h.count}`);
      lines.push(`agentd_${name}_ms_sum${inBraces(withOwn(inner))} ${h.sum}`);
      lines.push(`agentd_${name}_ms_count${inBraces(withOwn(inner))} ${h.count}`);
    }
    return lines;
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
    observeMs(name, ms, labels) {
      let series = histograms.get(name);
      if (series === undefined) {
        series = new Series(newHistogram);
        histograms.set(name, series);
      }
      const h = series.at(labels);
      const bucket = BUCKETS_MS.findIndex((limit) => ms <= limit);
      if (bucket >= 0) h.counts[bucket]!++;
      h.sum += ms;
      h.count++;
    },
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
      for (const [name, series] of histograms) lines.push(...writeHistogram(name, series));
      return `${lines.join('\n')}\n`;
    },
  };
}
