// Tools that operators declare are toold's: their names are words that a manifest may use. Asked
// for only when a manifest has a word that nobody knows.
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import { type ManifestResult, readManifest } from './manifests.ts';

export type ReadManifest = (text: string, file: string) => Promise<ManifestResult>;

/** Many broken manifests at once ask once. */
const ASK_EVERY_MS = 250;

export function makeManifestReader(options: {
  toold: Pick<Client<typeof tooldRoutes>, 'listTools'>;
  log: Log;
}): ReadManifest {
  let names: ReadonlySet<string> = new Set();
  let askedMs = Number.NEGATIVE_INFINITY;
  const refresh = async (): Promise<void> => {
    if (performance.now() - askedMs < ASK_EVERY_MS) return;
    askedMs = performance.now();
    try {
      const { tools } = await options.toold.listTools({});
      names = new Set(tools.map(({ name }) => name));
    } catch (error) {
      options.log.warn('toold does not say which tools are declared; taken as before', { error });
    }
  };
  return async (text, file) => {
    const read = readManifest(text, file, names);
    if (read.ok) return read;
    await refresh();
    return readManifest(text, file, names);
  };
}
