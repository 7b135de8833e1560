// Defines and checks the bundle: the versioned document with all policy inputs, which agentd
// publishes and the deciding daemons read (bundle-file.ts).
import type { AgentRights } from './manifest-rules.ts';

export const BUNDLE_FORMAT = 1;

export type SiteFile = { file: string; text: string };
export type People = Record<string, { roles: string[] }>;

/** The bundle without its version and hash. */
export type BundleContent = {
  /** Sorted by name. */
  site: SiteFile[];
  /** Null when no people are configured: then every person has all roles. */
  people: People | null;
  /** The runtime's own directories, which no agent may access. */
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

/** Returns why this is not a bundle, or undefined. Its writer is trusted; its bytes are not. */
export function bundleProblem(value: unknown): string | undefined {
  if (!isObject(value)) return 'it is not an object';
  if (value.format !== BUNDLE_FORMAT) return `its format is ${String(value.format)}, not 1`;
  if (!Number.isSafeInteger(value.version) || (value.version as number) < 1)
    return 'it has no version';
  if (typeof value.hash !== 'string') return 'it has no hash';
  const { site, people, agents } = value;
  const isFile = (entry: unknown) =>
    isObject(entry) && typeof entry.file === 'string' && typeof entry.text === 'string';
  if (!Array.isArray(site) || !site.every(isFile)) return 'its site rules are not readable';
  if (!Array.isArray(value.protected)) return 'it has no protected directories';
  if (people !== null && !isObject(people)) return 'its people are not readable';
  if (!isObject(agents) || !Object.values(agents).every(isObject))
    return 'its agents are not readable';
  return undefined;
}

/** Picks the members that are hashed. */
export const pickContent = ({ site, people, agents, ...rest }: BundleContent): BundleContent => ({
  site,
  people,
  protected: rest.protected,
  agents,
});
