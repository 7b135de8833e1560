// One measured figure with its peer and its bar, and its output: a line for people, an object for
// machines. Measuring is up to each benchmark.

/** Median and spread of the samples. */
export type Measured = { value: number; low: number; high: number; samples: number };

type Bar = { of: 'value' | 'ratio'; max?: number; min?: number };

export type Figure = {
  name: string;
  unit: string;
  own: Measured;
  peer?: Measured & { name: string };
  /** Our value divided by the peer's, round by round. */
  ratio?: Measured;
  /** Absent: reported as an explanation, without a bar. */
  bar?: Bar;
  note?: string;
};

export type Benchmark = {
  name: string;
  about: string;
  /** It takes too long for a run of all. */
  isByNameOnly?: true;
  run(): Promise<Figure[]>;
};

export function isOk({ bar, own, ratio }: Figure): boolean {
  if (bar === undefined) return true;
  const compared = bar.of === 'ratio' ? ratio?.value : own.value;
  if (compared === undefined || !Number.isFinite(compared)) return false;
  return compared <= (bar.max ?? Infinity) && compared >= (bar.min ?? -Infinity);
}

export function quantile(sorted: readonly number[], share: number): number {
  if (sorted.length === 0) return Number.NaN;
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)]!;
  return below + (sorted[Math.ceil(at)]! - below) * (at - Math.floor(at));
}

const ascending = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

/** Summarizes rounds: their median, minimum and maximum. */
export function seeRounds(values: readonly number[]): Measured {
  const sorted = ascending(values);
  return {
    value: quantile(sorted, 0.5),
    low: sorted[0] ?? Number.NaN,
    high: sorted.at(-1) ?? Number.NaN,
    samples: sorted.length,
  };
}

export const exactly = (value: number): Measured => ({
  value,
  low: value,
  high: value,
  samples: 1,
});

function digits(value: number): string {
  if (!Number.isFinite(value)) return 'none';
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString('en-US');
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function seenText({ value, low, high }: Measured, unit: string): string {
  const spread = low === high ? '' : ` (${digits(low)}–${digits(high)})`;
  return `${digits(value)}${unit === '' ? '' : ` ${unit}`}${spread}`;
}

function barText(bar: Bar | undefined, unit: string): string {
  if (bar === undefined) return '–';
  const after = bar.of === 'ratio' ? '×' : unit === '' ? '' : ` ${unit}`;
  return bar.max !== undefined ? `≤ ${digits(bar.max)}${after}` : `≥ ${digits(bar.min!)}${after}`;
}

/** `name | value unit | peer value | ratio | bar | ok` */
export function lineOf(figure: Figure): string {
  const { name, unit, own, peer, ratio, bar } = figure;
  return [
    name,
    seenText(own, unit),
    peer === undefined ? '–' : `${peer.name} ${seenText(peer, unit)}`,
    ratio === undefined ? '–' : seenText(ratio, '').replace(/^[\d.,]+/, '$&×'),
    barText(bar, unit),
    bar === undefined ? 'seen' : isOk(figure) ? 'ok' : 'short',
  ].join(' | ');
}
