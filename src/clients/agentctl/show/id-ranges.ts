// Describes how many uids and gids sandboxd has assigned, with a warning before a range is spent.
import type { RouteResponse } from '../../../wire/route.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import { formatCount } from './amounts.ts';

type Identity = RouteResponse<typeof sandboxdRoutes.identity>;

const SHARE_USED_WARN = 0.9;

export type IdRanges = { text: string /** Names the keys to change. */; fix: string | undefined };

/** Returns undefined for a runtime of a version that does not report them. */
export function describeIdRanges({ identity, ranges }: Identity): IdRanges | undefined {
  if (ranges === undefined) return undefined;
  const shown = [
    { name: 'gids of task trees', key: 'gid', range: ranges.gids },
    // With another identity agents have no uid of the range.
    ...(identity === 'dynamic' ? [{ name: 'uids of agents', key: 'uid', range: ranges.uids }] : []),
  ];
  const size = ({ first, last }: typeof ranges.gids) => last - first + 1;
  const text = shown
    .map(({ name, range }) => `${formatCount(range.used)} of ${formatCount(size(range))} ${name}`)
    .join(', ');
  const spent = shown.filter(({ range }) => range.used >= SHARE_USED_WARN * size(range));
  const keys = spent.map(({ key }) => `sandboxd.${key}_first and ${key}_last`).join(', ');
  return { text: `${text} used`, fix: spent.length === 0 ? undefined : `widen ${keys}` };
}
