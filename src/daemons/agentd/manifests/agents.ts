// Applies manifests: stores agents, publishes their policy and budgets, and writes or removes the
// operator's manifest files. A broken manifest is reported and the previous version stays in force.
import { accessSync, constants, cpSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { writeAtomically } from '../../../platform/state-dir.ts';
import { fault } from '../../../wire/errors.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import type { ManifestDir } from '../adapters/manifest-dir.ts';
import type { AgentdStore } from '../store/store.ts';
import type { DailyBudgets } from './daily-budgets.ts';
import type { ReadManifest } from './declared-tools.ts';
import type { ManifestSet } from './manifest-set.ts';
import { findModelProblems } from './model-problems.ts';

export type Agents = {
  /** Also reports models that no provider offers. */
  listProblems(): Promise<FileProblem[]>;
  putAgent(name: string, yaml: string, options: { createOnly: boolean; by: string }): Promise<void>;
  removeAgent(name: string, by: string): Promise<void>;
  applyManifests(set: ManifestSet): Promise<void>;
};

/** Fills an empty directory with a copy of the starter team. */
export function prepareAgentsDir(dir: string, starterDir: string | undefined): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const isEmpty = !readdirSync(dir).some((name) => /\.ya?ml$/.test(name));
  if (isEmpty && starterDir !== undefined && existsSync(starterDir))
    cpSync(starterDir, dir, { recursive: true });
}

/** Listing agents must not wait long for modeld. */
const LIST_MODELS_OPTIONS = { deadlineMs: 2_000 };

/** A configured directory may be read-only. */
function assertWritable(dir: string): void {
  try {
    accessSync(dir, constants.W_OK);
  } catch (cause) {
    throw fault('denied', `agentd may not write to the manifest directory ${dir}`, {
      hint: 'Edit the file there directly, or make the directory writable for the user of agentd.',
      cause,
    });
  }
}

export function makeAgents(deps: {
  store: AgentdStore;
  dir: string;
  manifests: () => ManifestDir;
  dailyBudgets: DailyBudgets;
  /** Resolves when the policy of these agents is on disk. */
  publish: (agents: ManifestSet['agents']) => Promise<void>;
  readManifest: ReadManifest;
  modeld: Pick<Client<typeof modeldRoutes>, 'listModels'>;
  log: Log;
}): Agents {
  const { store, dir, manifests, dailyBudgets, publish, readManifest, modeld, log } = deps;
  let problems: FileProblem[] = [];
  const applyManifests = async (set: ManifestSet): Promise<void> => {
    problems = set.problems;
    await store.applyAgents({
      agents: set.agents.map(({ agent, file }) => ({ spec: agent, file })),
    });
    await publish(set.agents);
    for (const { agent } of set.agents)
      dailyBudgets.sync(agent).catch((error: unknown) =>
        log.warn('sending a daily budget to modeld failed', {
          agent: agent.name,
          error,
        }),
      );
  };
  const findManifestFile = async (name: string): Promise<string | undefined> => {
    const found = (await store.agents()).find(({ row }) => row.name === name);
    return found?.row.manifest_file ?? undefined;
  };
  return {
    async listProblems() {
      const available = await modeld.listModels({}, LIST_MODELS_OPTIONS).catch((error: unknown) => {
        log.warn('listing models failed', { error });
        return undefined;
      });
      if (available === undefined) return problems;
      const views = (await store.agents()).map(({ view }) => view);
      return [...problems, ...findModelProblems(views, available)];
    },
    applyManifests,
    async putAgent(name, yaml, { createOnly, by }) {
      const existing = await findManifestFile(name);
      if (createOnly && existing !== undefined)
        throw fault('conflict', `agent ${name} already exists`, {
          hint: `To change it: agentctl agent update ${name}`,
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
          hint: 'Set metadata.name to the name in the command.',
        });
      assertWritable(dir);
      writeAtomically(file, yaml);
      await store.putAgent({ spec: read.agent, file }, by);
      await manifests().rescan();
    },
    async removeAgent(name, by) {
      const file = await findManifestFile(name);
      if (file !== undefined) assertWritable(dir);
      await store.setAgentStatus(name, 'removed', by);
      if (file !== undefined) rmSync(file, { force: true });
      await manifests().rescan();
    },
  };
}
