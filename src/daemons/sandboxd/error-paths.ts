// Rewrites host paths in errors for the agent in the box: paths that the box shows get their names
// there, other host directories are hidden. The original error is kept as the cause.
import { Fault, fault } from '../../wire/errors.ts';

/** A host path and its name in the box. */
export type PathAlias = readonly [host: string, inBox: string];

export type RenamePaths = <T>(work: Promise<T>) => Promise<T>;

const HIDDEN = '…';

/** Matches the path as a whole prefix, not as part of a longer name. */
const matchWholePath = (path: string): RegExp =>
  new RegExp(`(?<=^|[\\s"'(=])${RegExp.escape(path)}(?=$|[\\s"'),:;/])`, 'g');

export function makePathRenamer(
  names: readonly PathAlias[],
  hidden: readonly string[],
): RenamePaths {
  const all = [...names, ...hidden.map((host): PathAlias => [host, HIDDEN])];
  // Deeper paths first: a nested directory has its own name.
  const deepest = all.toSorted(([a], [b]) => b.length - a.length);
  const patterns = deepest.map(([host, inBox]) => [matchWholePath(host), inBox] as const);
  const rename = (text: string): string =>
    patterns.reduce((now, [host, inBox]) => now.replace(host, inBox), text);
  return (work) =>
    work.catch((error: unknown) => {
      // A directory that is not granted keeps its name on the host: a person has to type it.
      if (!(error instanceof Fault) || error.details?.workspace === 'not_granted') throw error;
      const { code, message, hint, retryAfterMs, details } = error;
      const [renamed, advice] = [rename(message), rename(hint)];
      if (renamed === message && advice === hint) throw error;
      throw fault(code, renamed, { hint: advice, retryAfterMs, details, cause: error });
    });
}
