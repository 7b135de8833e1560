// The bundle: everything that decides, in one versioned document that agentd publishes and the
// deciding daemons read. Its shape and its checks; files are bundle-file.ts's.
import type { AgentRights } from './manifest-rules.ts';

export const BUNDLE_FORMAT = 1;

export type SiteFile = { file: string; text: string };
export type People = Record<string, { roles: string[] }>;

/** What is published, without its number. */
export type BundleContent = {
  /** Sorted by name. */
  site: SiteFile[];
  /** null: nobody is named, so whoever holds the operator's key may everything a person may. */
  people: People | null;
  /** Directories of the runtime itself, which no agent may see. */
  protected: string[];
  agents: Record<string, AgentRights>;
};

export type Bundle = BundleContent & {
  format: number;
  /** Grows with every change. */
  version: number;
  /** SHA-256 of the canonical content. */
  hash: string;
  made_at: string;
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Why this is no bundle; undefined when it is one. Who wrote it is trusted, its bytes are not. */
export function bundleProblem(value: unknown): string | undefined {
  if (!isObject(value)) return 'it is not an object';
  if (value.format !== BUNDLE_FORMAT) return `its format is ${String(value.format)}, not 1`;
  if (!Number.isSafeInteger(value.version) || (value.version as number) < 1)
    return 'it has no version';
  if (typeof value.hash !== 'string') return 'it has no hash';
  const { site, people, agents } = value;
  const isFile = (one: unknown) =>
    isObject(one) && typeof one.file === 'string' && typeof one.text === 'string';
  if (!Array.isArray(site) || !site.every(isFile)) return 'its site rules are not readable';
  if (!Array.isArray(value.protected)) return 'it has no protected directories';
  if (people !== null && !isObject(people)) return 'its people are not readable';
  if (!isObject(agents) || !Object.values(agents).every(isObject))
    return 'its agents are not readable';
  return undefined;
}

/** What the hash is of. */
export const contentOf = ({ site, people, agents, ...rest }: BundleContent): BundleContent => ({
  site,
  people,
  protected: rest.protected,
  agents,
});
