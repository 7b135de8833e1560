// Publishes policy: compiles manifests and the site's rules into one versioned bundle that the
// deciding daemons watch. A broken rule file is reported and its previous version stays in force.
import { join } from 'node:path';
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import { findNearest } from '../../../platform/did-you-mean.ts';
import type { Log } from '../../../platform/log.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { makePrivateDir } from '../../../platform/state-dir.ts';
import type { Bundle, BundleContent, People, SiteFile } from '../../../policy/bundle.ts';
import { hashContent, readBundle, sealBundle, writeBundle } from '../../../policy/bundle-file.ts';
import { loadCedar } from '../../../policy/cedar.ts';
import { type AgentRights, extractRights } from '../../../policy/manifest-rules.ts';
import { checkSiteFile, type SiteCheck, type ToolSchemas } from '../../../policy/site.ts';
import { fault } from '../../../wire/errors.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import type { PolicyReading } from '../adapters/policy-dir.ts';
import type { FiledAgent } from '../manifests/manifest-set.ts';

export type Publisher = {
  /** Resolves when the bundle with these agents is on disk. */
  setAgents(agents: readonly FiledAgent[]): Promise<void>;
  /** Reads the rule files again and publishes changes. */
  rescan(): Promise<void>;
  /** Throws before the first agents are set. */
  bundle(): Bundle;
  problems(): FileProblem[];
  check(file: SiteFile): Promise<SiteCheck>;
};

/** The data of the event; the full problems are in the log and in `problems()`. */
export type RefusedBundle = { version_in_force: number; problems: number; first: string };

export type PublisherOptions = {
  stateDir: string;
  people: People | null;
  /** The runtime's own directories, which no agent may see. */
  protectedDirs: readonly string[];
  readSite: () => Promise<PolicyReading>;
  /** Resolves to undefined while toold does not answer. */
  listToolSchemas: () => Promise<ToolSchemas | undefined>;
  clock: Clock;
  log: Log;
  onPublished: (bundle: Bundle) => Promise<void>;
  onRefused: (refused: RefusedBundle) => Promise<void>;
};

/** Only rules about these need the list of tools. */
const NAMES_TOOLS = /Tool|Capability|arguments/;

export const formatProblem = ({ file, line, message }: FileProblem): string =>
  `${file}${line === null ? '' : `:${line}`}: ${message}`;

export const bundlePath = (stateDir: string): string => join(stateDir, 'policy', 'bundle.json');

export function makePublisher(options: PublisherOptions): Publisher {
  const { clock, log } = options;
  const file = bundlePath(options.stateDir);
  makePrivateDir(join(options.stateDir, 'policy'));
  let published = readPublished(file, log);
  let agents: Record<string, AgentRights> | undefined;
  let problems: FileProblem[] = [];
  let isFirst = true;
  const withLock = makeMutex();
  const check = async (siteFile: SiteFile): Promise<SiteCheck> =>
    checkSiteFile(await loadCedar(), siteFile, {
      agents: Object.keys(agents ?? {}),
      tools: NAMES_TOOLS.test(siteFile.text) ? await options.listToolSchemas() : undefined,
      nearest: findNearest,
    });

  /** After an upgrade, a published file may no longer be valid. */
  const revalidate = async (siteFile: SiteFile | undefined): Promise<SiteFile | undefined> =>
    siteFile === undefined || (isFirst && (await check(siteFile)).problems.length > 0)
      ? undefined
      : siteFile;

  /** Returns the current version of each file if valid, else the published one. */
  const chooseSiteFiles = async (): Promise<SiteFile[]> => {
    const { files, unread } = await options.readSite();
    const before = new Map(published?.site.map((siteFile) => [siteFile.file, siteFile]));
    const found: FileProblem[] = [...unread];
    const chosen = new Map<string, SiteFile>();
    for (const siteFile of files) {
      const name = siteFile.file;
      // A file that is in force unchanged was checked when it was loaded, or at this start.
      const isUnchanged = !isFirst && before.get(name)?.text === siteFile.text;
      const broken = isUnchanged ? [] : (await check(siteFile)).problems;
      found.push(...broken);
      const valid = broken.length === 0 ? siteFile : await revalidate(before.get(name));
      if (valid !== undefined) chosen.set(name, valid);
    }
    for (const { file: name } of unread) {
      const valid = await revalidate(before.get(name));
      if (valid !== undefined) chosen.set(name, valid);
    }
    // Starting without a rule file would drop its forbid rules.
    if (isFirst && found.some(({ file: name }) => !chosen.has(name))) throw brokenRulesFault(found);
    await reportProblems(found);
    return [...chosen.values()].sort((a, b) => (a.file < b.file ? -1 : 1));
  };

  const reportProblems = async (found: FileProblem[]): Promise<void> => {
    const isNew = JSON.stringify(found) !== JSON.stringify(problems);
    problems = found;
    if (!isNew || found.length === 0) return;
    for (const problem of found)
      log.error('broken rule file; its previous version stays in force', problem);
    await options.onRefused({
      version_in_force: published?.version ?? 0,
      problems: found.length,
      first: formatProblem(found[0]!).slice(0, 1_024),
    });
  };

  const publish = async (): Promise<void> => {
    if (agents === undefined) return;
    const content: BundleContent = {
      site: await chooseSiteFiles(),
      people: options.people,
      protected: [...new Set(options.protectedDirs)].sort(),
      agents,
    };
    isFirst = false;
    if (published?.hash === hashContent(content)) {
      // Equal values: drop the copy that was read from disk.
      published = { ...published, ...content };
      return;
    }
    const next = sealBundle(content, {
      version: (published?.version ?? 0) + 1,
      madeAt: toTimestamp(clock.nowMs()),
    });
    writeBundle(file, next);
    published = next;
    log.info('policy published', { version: next.version, hash: next.hash });
    await options.onPublished(next);
  };

  return {
    setAgents: (list) =>
      withLock(async () => {
        agents = Object.fromEntries(
          list.map(({ agent }) => [agent.name, extractRights(agent.manifest, agent.resources)]),
        );
        await publish();
      }),
    rescan: () => withLock(publish),
    bundle() {
      if (published === undefined) throw fault('unavailable', 'no policy is published yet');
      return published;
    },
    problems: () => problems,
    check,
  };
}

function readPublished(file: string, log: Log): Bundle | undefined {
  try {
    const read = readBundle(file);
    if (read.ok) return read.bundle;
    log.error('published policy is broken; making a new one', {
      file,
      problem: read.problem,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  return undefined;
}

function brokenRulesFault(problems: readonly FileProblem[]) {
  return fault('bad_config', `broken rule files: ${problems.map(formatProblem).join('; ')}`, {
    hint: problems[0]!.hint,
    details: { problems },
  });
}
