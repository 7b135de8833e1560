// What goes wrong with a box in words for whoever is in it: paths have the names that the box gives
// them, and what else is the host's own has none. The log has the words as they were.
import { Fault, fault } from '../../wire/errors.ts';

/** A path of the host, and its name in the box. */
export type Renamed = readonly [host: string, inBox: string];

export type InBoxWords = <T>(work: Promise<T>) => Promise<T>;

const UNNAMED = '…';

/** At the beginning of a path, and no part of a longer word in it. */
const wholePath = (path: string): RegExp =>
  new RegExp(`(?<=^|[\\s"'(=])${RegExp.escape(path)}(?=$|[\\s"'),:;/])`, 'g');

export function makeInBoxWords(names: readonly Renamed[], hidden: readonly string[]): InBoxWords {
  const all = [...names, ...hidden.map((host): Renamed => [host, UNNAMED])];
  // What lies in another has its own name.
  const deepest = all.toSorted(([a], [b]) => b.length - a.length);
  const found = deepest.map(([host, inBox]) => [wholePath(host), inBox] as const);
  const rename = (text: string): string =>
    found.reduce((now, [host, inBox]) => now.replace(host, inBox), text);
  return (work) =>
    work.catch((error: unknown) => {
      if (!(error instanceof Fault)) throw error;
      const { code, message, hint, retryAfterMs, details } = error;
      const [said, advice] = [rename(message), rename(hint)];
      if (said === message && advice === hint) throw error;
      throw fault(code, said, { hint: advice, retryAfterMs, details, cause: error });
    });
}
