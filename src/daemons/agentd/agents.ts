// The agents in force: read from a directory of manifests, followed as the files change, written
// there by the operator. A broken manifest keeps the old one in force and is named among the
// problems.
import { accessSync, constants, cpSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import { writeAtomically } from '../../platform/state-dir.ts';
import { fault } from '../../wire/errors.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { FileProblem } from '../../wire/primitives.ts';
import type { ManifestDir } from './adapters/manifest-dir.ts';
import type { ReadManifest } from './declared-tools.ts';
import type { ManifestSet } from './manifest-set.ts';
import { modelProblems } from './model-names.ts';
import type { Quotas } from './quotas.ts';
import type { AgentdStore } from './store/store.ts';

export type Agents = {
  /** Also with models that nobody offers now. */
  problems(): Promise<FileProblem[]>;
  put(name: string, yaml: string, options: { createOnly: boolean; by: string }): Promise<void>;
  remove(name: string, by: string): Promise<void>;
  /** The manifests changed. */
  apply(set: ManifestSet): Promise<void>;
};

/**
 * Where manifests are when nobody said otherwise: a copy of the starter team that people can
 * change.
 */
export function prepareAgentsDir(dir: string, starterDir: string | undefined): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const isEmpty = !readdirSync(dir).some((name) => /\.ya?ml$/.test(name));
  if (isEmpty && starterDir !== undefined && existsSync(starterDir))
    cpSync(starterDir, dir, { recursive: true });
}

/** People wait for the answer, and the models are the least of it. */
const soon = { deadlineMs: 2_000 };

/** A directory that an operator named may be for reading only. */
function assertWritable(dir: string): void {
  try {
    accessSync(dir, constants.W_OK);
  } catch (cause) {
    throw fault('denied', `agentd may not write to ${dir}, where the manifests are`, {
      hint: 'Change the file there yourself: agentd follows it. Or give that directory to its user.',
      cause,
    });
  }
}

export function makeAgents({
  store,
  dir,
  manifests,
  quotas,
  publish,
  readManifest,
  modeld,
  log,
}: {
  store: AgentdStore;
  dir: string;
  manifests: () => ManifestDir;
  quotas: Quotas;
  /** Resolves when what these agents may is what the deciding daemons will read. */
  publish: (agents: ManifestSet['agents']) => Promise<void>;
  readManifest: ReadManifest;
  modeld: Pick<Client<typeof modeldRoutes>, 'listModels'>;
  log: Log;
}): Agents {
  let problems: FileProblem[] = [];
  const apply = async (set: ManifestSet): Promise<void> => {
    problems = set.problems;
    await store.applyAgents({
      agents: set.agents.map(({ agent, file }) => ({ spec: agent, file })),
    });
    await publish(set.agents);
    for (const { agent } of set.agents)
      quotas.tell(agent).catch((error: unknown) =>
        log.warn('a budget could not be told; it is before the next run', {
          agent: agent.name,
          error,
        }),
      );
  };
  const fileOf = async (name: string): Promise<string | undefined> => {
    const found = (await store.agents()).find(({ row }) => row.name === name);
    return found?.row.manifest_file ?? undefined;
  };
  return {
    async problems() {
      // When modeld does not answer, that is told where models are told of, not here.
      const offered = await modeld.listModels({}, soon).catch((error: unknown) => {
        log.warn('the models could not be asked for', { error });
        return undefined;
      });
      if (offered === undefined) return problems;
      const views = (await store.agents()).map(({ view }) => view);
      return [...problems, ...modelProblems(views, offered)];
    },
    apply,
    async put(name, yaml, { createOnly, by }) {
      const existing = await fileOf(name);
      if (createOnly && existing !== undefined)
        throw fault('conflict', `there is an agent ${name} already`, {
          hint: `Change it: agentctl agent update ${name}`,
        });
      const file = existing ?? join(dir, `${name}.yaml`);
      const read = await readManifest(yaml, file);
      if (!read.ok) {
        const lines = read.problems.map(
          (p) => `${p.line === null ? '' : `line ${p.line}: `}${p.message}`,
        );
        throw fault('bad_manifest', lines.join('; '), {
          hint: read.problems[0]!.hint,
          details: { problems: read.problems },
        });
      }
      if (read.agent.name !== name)
        throw fault('bad_manifest', `the manifest declares ${read.agent.name}, not ${name}`, {
          hint: 'Give it the same name as the command.',
        });
      assertWritable(dir);
      writeAtomically(file, yaml);
      await store.putAgent({ spec: read.agent, file }, by);
      await manifests().rescan();
    },
    async remove(name, by) {
      const file = await fileOf(name);
      if (file !== undefined) assertWritable(dir);
      await store.setAgentStatus(name, 'removed', by);
      if (file !== undefined) rmSync(file, { force: true });
      await manifests().rescan();
    },
  };
}
