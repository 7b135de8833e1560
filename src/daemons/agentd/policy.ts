// Publishing policy: manifests and the site's rules become one versioned bundle that the deciding
// daemons follow. A broken rule file keeps what it said before in force and is named loudly.
import { join } from 'node:path';
import { type Clock, toTimestamp } from '../../platform/clock.ts';
import { nearest } from '../../platform/did-you-mean.ts';
import type { Log } from '../../platform/log.ts';
import { makeMutex } from '../../platform/mutex.ts';
import { ownDir } from '../../platform/state-dir.ts';
import type { Bundle, BundleContent, People, SiteFile } from '../../policy/bundle.ts';
import { hashOf, readBundle, sealBundle, writeBundle } from '../../policy/bundle-file.ts';
import { loadCedar } from '../../policy/cedar.ts';
import { type AgentRights, rightsOf } from '../../policy/manifest-rules.ts';
import { checkSiteFile, type SiteCheck } from '../../policy/site.ts';
import { fault } from '../../wire/errors.ts';
import type { FileProblem } from '../../wire/primitives.ts';
import type { PolicyReading } from './adapters/policy-dir.ts';
import type { FiledAgent } from './manifest-set.ts';

export type Publisher = {
  /** These are the agents now. Resolves when the bundle that says so is on disk. */
  setAgents(agents: readonly FiledAgent[]): Promise<void>;
  /** The rule files may have changed. */
  rescan(): Promise<void>;
  /** What is published; throws before the first agents are set. */
  bundle(): Bundle;
  problems(): FileProblem[];
  check(file: SiteFile): Promise<SiteCheck>;
};

/** As an event can tell it; the rest is in the log and in `problems`. */
export type RefusedBundle = { version_in_force: number; problems: number; first: string };

export type PublisherOptions = {
  stateDir: string;
  people: People | null;
  /** Directories no agent may see: the runtime's own. */
  protectedDirs: readonly string[];
  readSite: () => Promise<PolicyReading>;
  clock: Clock;
  log: Log;
  onPublished: (bundle: Bundle) => Promise<void>;
  onRefused: (refused: RefusedBundle) => Promise<void>;
};

export const bundleFileOf = (stateDir: string): string => join(stateDir, 'policy', 'bundle.json');

export function makePublisher(options: PublisherOptions): Publisher {
  const { clock, log } = options;
  const file = bundleFileOf(options.stateDir);
  ownDir(join(options.stateDir, 'policy'));
  let published = readPublished(file, log);
  let agents: Record<string, AgentRights> | undefined;
  let problems: FileProblem[] = [];
  let isFirst = true;
  const inTurn = makeMutex();
  const check = async (one: SiteFile): Promise<SiteCheck> =>
    checkSiteFile(await loadCedar(), one, { agents: Object.keys(agents ?? {}), nearest });

  /** What an older version wrote may mean nothing to this one. */
  const stillGood = async (one: SiteFile | undefined): Promise<SiteFile | undefined> =>
    one === undefined || (isFirst && (await check(one)).problems.length > 0) ? undefined : one;

  /** The files in force: each as it is now if it can be, else as it was. */
  const settleSite = async (): Promise<SiteFile[]> => {
    const { files, unread } = await options.readSite();
    const before = new Map(published?.site.map((one) => [one.file, one]));
    const found: FileProblem[] = [...unread];
    const settled = new Map<string, SiteFile>();
    for (const one of files) {
      // What is in force as it stands was checked when it came, or at this start.
      const isOld = !isFirst && before.get(one.file)?.text === one.text;
      const wrong = isOld ? [] : (await check(one)).problems;
      found.push(...wrong);
      const good = wrong.length === 0 ? one : await stillGood(before.get(one.file));
      if (good !== undefined) settled.set(one.file, good);
    }
    for (const { file: name } of unread) {
      const good = await stillGood(before.get(name));
      if (good !== undefined) settled.set(name, good);
    }
    // Without rules to go on with, starting would mean to leave out what the site forbids.
    const lost = found.find(({ file: name }) => isFirst && !settled.has(name));
    if (lost !== undefined) throw refusal(found);
    await shout(found);
    return [...settled.values()].sort((a, b) => (a.file < b.file ? -1 : 1));
  };

  const shout = async (found: FileProblem[]): Promise<void> => {
    const isNew = JSON.stringify(found) !== JSON.stringify(problems);
    problems = found;
    if (!isNew || found.length === 0) return;
    for (const problem of found)
      log.error('rules of the site are broken; what they said before stays in force', problem);
    const { file: name, line, message } = found[0]!;
    await options.onRefused({
      version_in_force: published?.version ?? 0,
      problems: found.length,
      first: `${name}${line === null ? '' : `:${line}`}: ${message}`.slice(0, 1_024),
    });
  };

  const publish = async (): Promise<void> => {
    if (agents === undefined) return;
    const content: BundleContent = {
      site: await settleSite(),
      people: options.people,
      protected: [...new Set(options.protectedDirs)].sort(),
      agents,
    };
    isFirst = false;
    if (published?.hash === hashOf(content)) {
      // The same values, of which one copy is enough.
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
      inTurn(async () => {
        agents = Object.fromEntries(
          list.map(({ agent }) => [agent.name, rightsOf(agent.manifest, agent.resources)]),
        );
        await publish();
      }),
    rescan: () => inTurn(publish),
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
    log.error('the policy of an earlier life is broken; it is made anew', {
      file,
      problem: read.problem,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  return undefined;
}

function refusal(problems: readonly FileProblem[]) {
  const lines = problems.map(
    ({ file, line, message }) => `${file}${line === null ? '' : `:${line}`}: ${message}`,
  );
  return fault('bad_config', `rules of the site are broken: ${lines.join('; ')}`, {
    hint: problems[0]!.hint,
    details: { problems },
  });
}
