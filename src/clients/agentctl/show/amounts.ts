// Formats money, counts, sizes and times. read-amounts.ts parses them.

export function formatMoney(microusd: number): string {
  if (microusd > 0 && microusd < 100) return '<$0.0001';
  return `$${(microusd / 1_000_000).toFixed(microusd >= 100_000_000 ? 2 : 4)}`;
}

export const formatCount = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, ',');

/** '1 task', '2 tasks'. */
export const pluralize = (n: number, one: string, more = `${one}s`): string =>
  `${formatCount(n)} ${n === 1 ? one : more}`;

export function formatSize(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

export function formatSpan(ms: number): string {
  const s = Math.max(0, ms) / 1_000;
  if (s < 1) return `${Math.round(s * 1_000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3_600)} h`;
}

/** '12 s ago', 'in 3 min'. */
export function formatRelative(time: string, nowMs: number): string {
  const ms = Date.parse(time) - nowMs;
  if (Math.abs(ms) < 1_000) return 'now';
  const words = formatCoarse(Math.abs(ms) / 1_000);
  return ms < 0 ? `${words} ago` : `in ${words}`;
}

function formatCoarse(s: number): string {
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

/** Returns midnight UTC, when daily budgets renew. */
export const startOfDay = (nowMs: number): string =>
  `${new Date(nowMs).toISOString().slice(0, 10)}T00:00:00.000Z`;
