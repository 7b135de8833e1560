// Decides whether a soak has passed: nothing lost or doubled, a rate that holds, memory that does
// not grow. Pure.

export type CriterionStatus = 'ok' | 'failed' | 'not applicable';
export type Criterion = { name: string; status: CriterionStatus; detail: string };

const RATE_WINDOW_MIN = 5;
export const RATE_FALL_MAX = 0.2;
const WARM_UP_MIN = 10;
const MEMORY_WINDOW_MIN = 10;
export const GROWTH_MB_PER_H_MAX = 10;

/** Tasks that ended in one minute, and how long the runtime was up in it. */
export type MinuteRate = { tasks: number; upMs: number };

const percent = (share: number): string => `${(share * 100).toFixed(0)} %`;

/** Compares tasks per second of uptime: outages are reported, and not part of the rate. */
export function checkRate(minutes: readonly MinuteRate[]): Criterion {
  const name = `rate falls by at most ${percent(RATE_FALL_MAX)}`;
  if (minutes.length < 2 * RATE_WINDOW_MIN)
    return {
      name,
      status: 'not applicable',
      detail: `needs ${2 * RATE_WINDOW_MIN} minutes`,
    };
  const first = rateOf(minutes.slice(0, RATE_WINDOW_MIN));
  const last = rateOf(minutes.slice(-RATE_WINDOW_MIN));
  const fall = 1 - last / first;
  const change = fall > 0 ? `a fall of ${percent(fall)}` : `a rise of ${percent(-fall)}`;
  return {
    name,
    status: fall > RATE_FALL_MAX ? 'failed' : 'ok',
    detail: `${first.toFixed(1)} tasks/s in the first five minutes, ${last.toFixed(1)} in the last five: ${change}`,
  };
}

export function rateOf(minutes: readonly MinuteRate[]): number {
  const tasks = minutes.reduce((sum, one) => sum + one.tasks, 0);
  const upMs = minutes.reduce((sum, one) => sum + one.upMs, 0);
  return upMs === 0 ? 0 : (tasks * 1_000) / upMs;
}

export type MemoryPoint = { atMs: number; ageMs: number; totalBytes: number };

/**
 * A restarted process is small and grows as V8 compiles, so growth over time is separated from
 * growth with age: bytes = a + b·time + c·ln(age). Fails only when the growth is above the limit
 * beyond the uncertainty of the fit.
 */
export function checkMemory(points: readonly MemoryPoint[], minutes: number): Criterion {
  const name = `memory grows by at most ${GROWTH_MB_PER_H_MAX} MB an hour`;
  const needed = WARM_UP_MIN + MEMORY_WINDOW_MIN;
  if (minutes < needed)
    return { name, status: 'not applicable', detail: `needs ${needed} minutes` };
  const late = points.filter(({ atMs }) => atMs >= WARM_UP_MIN * 60_000);
  const fit = fitGrowth(late);
  if (fit === undefined)
    return { name, status: 'failed', detail: `${late.length} samples are too few` };
  const { growth, error } = fit;
  return {
    name,
    status: growth - 2 * error > GROWTH_MB_PER_H_MAX ? 'failed' : 'ok',
    detail: `${growth.toFixed(1)} ± ${(2 * error).toFixed(1)} MB an hour after the first ten minutes`,
  };
}

/** Least squares over hours and ln(age in minutes): the growth in MB an hour, and its error. */
export function fitGrowth(
  points: readonly MemoryPoint[],
): { growth: number; error: number } | undefined {
  const rows = points.map(({ atMs, ageMs }) => [
    1,
    atMs / 3_600_000,
    Math.log(1 + Math.max(0, ageMs) / 60_000),
  ]);
  const values = points.map(({ totalBytes }) => totalBytes / 1_000_000);
  if (rows.length < 6) return undefined;
  const size = 3;
  const products = Array.from({ length: size }, (_, i) =>
    Array.from({ length: size }, (_, j) => rows.reduce((sum, row) => sum + row[i]! * row[j]!, 0)),
  );
  const inverse = invert(products);
  if (inverse === undefined) return undefined;
  const sums = Array.from({ length: size }, (_, i) =>
    rows.reduce((sum, row, k) => sum + row[i]! * values[k]!, 0),
  );
  const factors = inverse.map((row) => row.reduce((sum, one, j) => sum + one * sums[j]!, 0));
  const squares = rows.reduce((sum, row, k) => {
    const fitted = row.reduce((total, one, j) => total + one * factors[j]!, 0);
    return sum + (values[k]! - fitted) ** 2;
  }, 0);
  const variance = squares / (rows.length - size);
  return { growth: factors[1]!, error: Math.sqrt(variance * inverse[1]![1]!) };
}

/** Gauss-Jordan with pivots; undefined for a singular matrix. */
function invert(matrix: readonly (readonly number[])[]): number[][] | undefined {
  const n = matrix.length;
  const rows = matrix.map((row, i) => [...row, ...row.map((_, j) => (i === j ? 1 : 0))]);
  for (let column = 0; column < n; column++) {
    let pivot = column;
    for (let row = column + 1; row < n; row++)
      if (Math.abs(rows[row]![column]!) > Math.abs(rows[pivot]![column]!)) pivot = row;
    const head = rows[pivot]![column]!;
    if (Math.abs(head) < 1e-9) return undefined;
    [rows[column], rows[pivot]] = [rows[pivot]!, rows[column]!];
    rows[column] = rows[column]!.map((value) => value / head);
    for (let row = 0; row < n; row++) {
      if (row === column) continue;
      const factor = rows[row]![column]!;
      rows[row] = rows[row]!.map((value, k) => value - factor * rows[column]![k]!);
    }
  }
  return rows.map((row) => row.slice(n));
}
