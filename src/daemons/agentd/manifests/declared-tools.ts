// Reads manifests that may name operator-declared tools, and the schemas of all tools for the check
// of rules. Lists the tools from toold only when a manifest has an unknown capability, or a rule
// names one.
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import type { ToolSchemas } from '../../../policy/site.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';
import type { PersonaLibrary } from '../personas/library.ts';
import { type ManifestResult, readManifest } from './read-manifest.ts';

export type ReadManifest = (text: string, file: string) => Promise<ManifestResult>;

/** Several broken manifests share one request. */
const REFRESH_INTERVAL_MS = 250;

type ToolList = { toold: Pick<Client<typeof tooldRoutes>, 'listTools'>; log: Log };

/** The list resolves to undefined where toold does not answer. */
export const makeSchemaList =
  ({ toold, log }: ToolList) =>
  async (): Promise<ToolSchemas | undefined> => {
    try {
      const { tools } = await toold.listTools({});
      return new Map(tools.map(({ name, input_schema: schema }) => [name, schema]));
    } catch (error) {
      log.warn('listing tools failed; the arguments that rules read are not checked', { error });
      return undefined;
    }
  };

export function makeManifestReader(
  options: ToolList & {
    closedDirs: ReadonlyMap<string, string>;
    personas: () => PersonaLibrary;
  },
): ReadManifest {
  const { closedDirs } = options;
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
    const read = () =>
      readManifest(text, file, { declaredTools: names, closedDirs, personas: options.personas() });
    const first = read();
    if (first.ok) return first;
    await refresh();
    return read();
  };
}
