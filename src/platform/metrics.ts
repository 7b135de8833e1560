// Counters, gauges and histograms of one daemon, written in the Prometheus text form.

type Labels = Record<string, string>;
const BUCKETS_MS = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000, 60_000];

type Histogram = { counts: number[]; sum: number; count: number };

export type Metrics = {
  count(name: string, labels?: Labels, by?: number): void;
  gauge(name: string, read: () => number): void;
  observeMs(name: string, ms: number, labels?: Labels): void;
  text(): string;
};

const escaped = (value: string) =>
  /[\\"\n]/.test(value)
    ? value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n')
    : value;

function key(labels: Labels | undefined): string {
  if (labels === undefined) return '';
  let text = '';
  for (const name in labels) text += `${text === '' ? '' : ','}${name}="${escaped(labels[name]!)}"`;
  return text;
}

const braces = (inner: string) => (inner === '' ? '' : `{${inner}}`);

export function makeMetrics(daemon: string): Metrics {
  const counters = new Map<string, Map<string, number>>();
  const gauges = new Map<string, () => number>();
  const histograms = new Map<string, Map<string, Histogram>>();
  const own = `daemon="${daemon}"`;
  const withOwn = (inner: string) => (inner === '' ? own : `${own},${inner}`);

  const histogramText = (name: string, series: Map<string, Histogram>): string[] => {
    const lines = [`# TYPE agentd_${name}_ms histogram`];
    for (const [inner, h] of series) {
      let below = 0;
      for (const [i, bucket] of BUCKETS_MS.entries()) {
        below += h.counts[i]!;
        lines.push(
          `agentd_${name}_ms_bucket${braces(`${withOwn(inner)},le="${bucket}"`)} ${below}`,
        );
      }
      lines.push(`agentd_${name}_ms_bucket${braces(`${withOwn(inner)},le="+Inf"`)} ${h.count}`);
      lines.push(`agentd_${name}_ms_sum${braces(withOwn(inner))} ${h.sum}`);
      lines.push(`agentd_${name}_ms_count${braces(withOwn(inner))} ${h.count}`);
    }
    return lines;
  };

  return {
    count(name, labels, by = 1) {
      const series = counters.get(name) ?? new Map<string, number>();
      counters.set(name, series);
      const at = key(labels);
      series.set(at, (series.get(at) ?? 0) + by);
    },
    gauge: (name, read) => void gauges.set(name, read),
    observeMs(name, ms, labels) {
      const series = histograms.get(name) ?? new Map<string, Histogram>();
      histograms.set(name, series);
      const at = key(labels);
      const h = series.get(at) ?? { counts: BUCKETS_MS.map(() => 0), sum: 0, count: 0 };
      series.set(at, h);
      const bucket = BUCKETS_MS.findIndex((limit) => ms <= limit);
      if (bucket >= 0) h.counts[bucket]!++;
      h.sum += ms;
      h.count++;
    },
    text() {
      const lines: string[] = [];
      for (const [name, series] of counters) {
        lines.push(`# TYPE agentd_${name}_total counter`);
        for (const [inner, value] of series)
          lines.push(`agentd_${name}_total${braces(withOwn(inner))} ${value}`);
      }
      for (const [name, read] of gauges) {
        lines.push(`# TYPE agentd_${name} gauge`, `agentd_${name}${braces(own)} ${read()}`);
      }
      for (const [name, series] of histograms) lines.push(...histogramText(name, series));
      return `${lines.join('\n')}\n`;
    },
  };
}
