// Parses amounts that people type: money, durations, times. show/amounts.ts formats them.
import { fault } from '../../wire/errors.ts';

const UNIT_S: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** Parses dollars to micro-dollars without floating point. */
export function readUsd(text: string): number | undefined {
  const [, whole, part = ''] = /^\$?(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text) ?? [];
  return whole === undefined ? undefined : Number(whole) * 1_000_000 + Number(part.padEnd(6, '0'));
}

/** Parses '90', '30s' or '1h30m' to whole seconds above 0. */
export function readDuration(text: string): number | undefined {
  if (/^\d{1,9}$/.test(text)) return Number(text) > 0 ? Number(text) : undefined;
  if (!/^(\d{1,9}[smhd])+$/.test(text)) return undefined;
  let total = 0;
  for (const [, number, unit] of text.matchAll(/(\d+)([smhd])/g))
    total += Number(number) * UNIT_S[unit!]!;
  return total > 0 ? total : undefined;
}

/** Returns a plausible time for a hint: yesterday, or tomorrow for `ahead`. */
export const makeExampleTime = (nowMs: number, direction: 'ago' | 'ahead'): string => {
  const day = new Date(nowMs + (direction === 'ago' ? -1 : 1) * 86_400_000);
  return `${day.toISOString().slice(0, 10)}T18:00:00Z`;
};

/** Parses an RFC 3339 time, a date, or a duration from now in this direction. */
export function readTime(text: string, nowMs: number, direction: 'ago' | 'ahead'): string {
  const span = readDuration(text);
  if (span !== undefined)
    return new Date(nowMs + (direction === 'ago' ? -1 : 1) * span * 1_000).toISOString();
  const ms = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(ms)) {
    const example = makeExampleTime(nowMs, direction);
    throw fault('bad_usage', `${text} is not a time`, {
      hint: `Write it as ${example}, ${example.slice(0, 10)}, or as a duration such as 2h.`,
    });
  }
  return new Date(ms).toISOString();
}
