// Reads the configuration again while the runtime runs: a daemon takes what it can change, and the
// rest waits for a restart. A file that is wrong changes nothing.
import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { route } from '../wire/route.ts';

/** The keys of its section that a daemon can take, and how; it throws before any change. */
export type Reload<C> = { keys: readonly (keyof C & string)[]; apply(config: C): void };

export const ReloadView = z.object({ taken: z.array(z.string()), waiting: z.array(z.string()) });
export type ReloadView = z.infer<typeof ReloadView>;

export const reloadRoute = route({
  method: 'POST',
  path: '/v1/reload',
  callers: ['operator'],
  output: ReloadView,
});

type Section = Readonly<Record<string, unknown>>;
/** Set by the runtime itself, not by the file. */
const OWN_KEYS: readonly string[] = ['rehearsal'];

/** `shared`: sections of no daemon, for which this one answers. */
export function makeReloader(options: {
  name: string;
  running: Readonly<Record<string, unknown>>;
  shared: readonly string[];
  read(): Readonly<Record<string, unknown>>;
  reload: Reload<never> | undefined;
}): () => ReloadView {
  const { name, shared, reload } = options;
  let running = (options.running[name] ?? {}) as Section;
  return () => {
    const found = options.read();
    const fresh = (found[name] ?? {}) as Section;
    const changed = listChangedKeys(running, fresh);
    const taken = changed.filter((key) => reload?.keys.includes(key) === true);
    if (taken.length > 0) {
      const next = { ...running, ...Object.fromEntries(taken.map((key) => [key, fresh[key]])) };
      reload!.apply(next as never);
      running = next;
    }
    const others = shared.flatMap((section) =>
      listChangedKeys(
        (options.running[section] ?? {}) as Section,
        (found[section] ?? {}) as Section,
      ).map((key) => `${section}.${key}`),
    );
    const waiting = changed.filter((key) => !taken.includes(key)).map((key) => `${name}.${key}`);
    return { taken: taken.map((key) => `${name}.${key}`), waiting: [...waiting, ...others] };
  };
}

function listChangedKeys(before: Section, after: Section): string[] {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return keys.filter(
    (key) => !OWN_KEYS.includes(key) && !isDeepStrictEqual(before[key], after[key]),
  );
}
