// Measures what the state directory takes on the disk, by kind of data and by agent. Nothing large
// is walked: sizes of files, homes, contexts and artifacts are kept as sums.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readDiskSpace } from '../../../platform/free-bytes.ts';
import type { RetentionConfig, RetentionRule } from '../../../platform/retention-config.ts';
import { readDatabaseSize } from '../../../platform/sql/file-size.ts';
import type { DiskUsageView, KindUsage } from '../../../wire/agentd/disk-usage.ts';
import { DAEMONS } from '../../../wire/daemons.ts';
import type { AgentdStore } from '../store/store.ts';
import type { MemoryPeer } from './memories.ts';
import type { ContextPeer, FilePeer } from './tree-parts.ts';
import { PEER_OPTIONS } from './trees.ts';

/** The databases that hold the records of tasks; modeld's is mostly contexts. */
const RECORD_DATABASES = ['agentd', 'toold', 'approvald', 'egressd', 'sandboxd'] as const;
const COPY = /\.sqlite\.before-/;

type AgentBytes = { agent: string; bytes: number };

export const measureRecords = (stateDir: string, size: 'bytes' | 'usedBytes'): number =>
  RECORD_DATABASES.reduce(
    (sum, name) => sum + readDatabaseSize(join(stateDir, `${name}.sqlite`))[size],
    0,
  );

export async function measureDiskUsage(deps: {
  stateDir: string;
  store: Pick<AgentdStore, 'artifactSizes' | 'countTasksByAgent'>;
  sandboxd: Pick<FilePeer, 'fileSizes'>;
  modeld: Pick<ContextPeer, 'contextSizes'>;
  memoryd: Pick<MemoryPeer, 'memorySizes'>;
  config: RetentionConfig;
}): Promise<DiskUsageView> {
  const { stateDir, store, config } = deps;
  const [artifacts, tasks, files, contexts, memories] = await Promise.all([
    store.artifactSizes(),
    store.countTasksByAgent(),
    deps.sandboxd.fileSizes({}, PEER_OPTIONS),
    deps.modeld.contextSizes({}, PEER_OPTIONS),
    deps.memoryd.memorySizes({}, PEER_OPTIONS),
  ]);
  const records = measureRecords(stateDir, 'bytes');
  const inDir = (name: string) => measureDir(join(stateDir, name));
  const filesOf = (wanted: string) => files.sizes.filter(({ kind }) => kind === wanted);
  return {
    kinds: [
      describeKind('tasks', shareOut(records, tasks), records, config.tasks),
      describeKind(
        'artifacts',
        artifacts.map(({ createdBy, bytes }) => ({ agent: toAgent(createdBy), bytes })),
        undefined,
        config.artifacts,
      ),
      describeKind('workspaces', filesOf('workspaces'), undefined, config.workspaces),
      describeKind('homes', filesOf('homes'), undefined, config.homes),
      describeKind(
        'model_contexts',
        contexts.sizes,
        readDatabaseSize(join(stateDir, 'modeld.sqlite')).bytes,
        config.model_contexts,
      ),
      describeKind(
        'memories',
        memories.scopes.map(({ scope, bytes }) => ({ agent: toAgent(scope), bytes })),
        inDir('memory/journals') +
          memories.scopes.reduce((sum, { object_bytes }) => sum + object_bytes, 0) +
          readDatabaseSize(join(stateDir, 'memoryd.sqlite')).bytes,
        config.memories,
      ),
      describeKind('audit', [], inDir('audit') + inIndex(stateDir)),
      describeKind('logs', [], inDir('logs')),
      describeKind('copies', [], inDir('snapshots') + measureCopies(stateDir)),
    ],
    databases: DAEMONS.flatMap((name) => {
      const { bytes, usedBytes } = readDatabaseSize(join(stateDir, `${name}.sqlite`));
      return bytes === 0 ? [] : [{ name, bytes, used_bytes: usedBytes }];
    }),
    disk: readDiskSpace(stateDir),
  };
}

/** Without a total, that of the agents. */
function describeKind(
  kind: KindUsage['kind'],
  agents: readonly AgentBytes[],
  total?: number,
  rule: RetentionRule = { age: null, size: null },
): KindUsage {
  const shown = agents
    .map(({ agent, bytes }) => ({ agent, bytes }))
    .sort((a, b) => b.bytes - a.bytes);
  return {
    kind,
    bytes: total ?? shown.reduce((sum, { bytes }) => sum + bytes, 0),
    agents: shown,
    age_s: rule.age === null ? null : rule.age / 1_000,
    size_max_bytes: rule.size,
  };
}

const toAgent = (principal: string): string =>
  principal.startsWith('agent:') ? principal.slice('agent:'.length) : principal;

/** An estimate: records are not counted by agent, their tasks are. */
function shareOut(bytes: number, tasks: { agent: string; count: number }[]): AgentBytes[] {
  const all = tasks.reduce((sum, { count }) => sum + count, 0);
  return tasks.map(({ agent, count }) => ({ agent, bytes: Math.round((bytes * count) / all) }));
}

const inIndex = (stateDir: string): number =>
  readDatabaseSize(join(stateDir, 'auditd-ai.sqlite')).bytes;

function measureCopies(stateDir: string): number {
  return readdirSync(stateDir)
    .filter((name) => COPY.test(name))
    .reduce((sum, name) => sum + sizeOf(join(stateDir, name)), 0);
}

/** The directories that this is used for have few files. */
function measureDir(dir: string): number {
  try {
    return readdirSync(dir, { recursive: true, encoding: 'utf8' }).reduce(
      (sum, name) => sum + sizeOf(join(dir, name)),
      0,
    );
  } catch {
    return 0;
  }
}

const sizeOf = (path: string): number => {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true ? found.size : 0;
};
