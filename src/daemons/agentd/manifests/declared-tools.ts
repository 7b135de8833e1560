// Reads manifests that may name operator-declared tools. Lists those tools from toold only when a
// manifest has an unknown capability.
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';
import { type ManifestResult, readManifest } from './read-manifest.ts';

export type ReadManifest = (text: string, file: string) => Promise<ManifestResult>;

/** Several broken manifests share one request. */
const REFRESH_INTERVAL_MS = 250;

export function makeManifestReader(options: {
  toold: Pick<Client<typeof tooldRoutes>, 'listTools'>;
  log: Log;
}): ReadManifest {
  let names: ReadonlySet<string> = new Set();
  let refreshedMs = Number.NEGATIVE_INFINITY;
  const refresh = async (): Promise<void> => {
    if (performance.now() - refreshedMs < REFRESH_INTERVAL_MS) return;
    refreshedMs = performance.now();
    try {
      const { tools } = await options.toold.listTools({});
      names = new Set(tools.map(({ name }) => name));
    } catch (error) {
      options.log.warn('listing declared tools failed; using the previous list', { error });
    }
  };
  return async (text, file) => {
    const read = readManifest(text, file, names);
    if (read.ok) return read;
    await refresh();
    return readManifest(text, file, names);
  };
}
