// A runtime whose sandboxd is called directly, as toold and agentd do, with directories of a
// person to work on.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import type { FileAnswer, FileRequestInput } from '../../src/wire/sandboxd/files.ts';
import {
  type BoxRules,
  type Collected,
  type OpenBox,
  type OpenBoxBody,
  sandboxdRoutes,
} from '../../src/wire/sandboxd.ts';
import { fingerprint } from '../escape/support/layers.ts';
import { daemonPids, wardensOf } from './kills.ts';
import { makePlaces, type OnOverlay } from './overlay.ts';
import { type RuntimeOptions, startRuntime, type TestRuntime } from './runtime.ts';
import { TEAM } from './scripted-world.ts';

const NOBODY = 65_534;
const PERSON = { uid: 12_345, gid: 12_346 };
const IS_ROOT = process.getuid?.() === 0;
export const LAYER_MODES = IS_ROOT ? (['root', 'user'] as const) : (['user'] as const);
type Mode = (typeof LAYER_MODES)[number];

/** These modes; and as root directories on a container's own overlay, where owners have no map. */
export const LAYER_GROUNDS: readonly { mode: Mode; where: string; on: OnOverlay }[] = [
  ...LAYER_MODES.map((mode) => ({ mode, where: mode, on: {} })),
  ...(IS_ROOT
    ? [
        {
          mode: 'root' as const,
          where: 'root, on an overlay',
          on: { peopleOn: 'overlay' as const },
        },
      ]
    : []),
];

export type LayerBox = {
  view: OpenBox;
  /** Runs a script, which must succeed, and returns what it printed. */
  run(script: string): Promise<string>;
  exec(script: string): Promise<Collected>;
  file(request: FileRequestInput): Promise<FileAnswer & { content?: string }>;
  close(): Promise<unknown>;
};
type More = Partial<Pick<OpenBoxBody, 'agent' | 'rules' | 'workspace_mode' | 'layer_task_id'>>;

export type LayerWorld = {
  base: string;
  /** The directory in which directories of people are made. */
  people: string;
  runtime: TestRuntime;
  toold: Client<typeof sandboxdRoutes>;
  agentd: Client<typeof sandboxdRoutes>;
  treeId(tree: string): TaskId;
  /** Makes a directory of the person with these files. */
  directory(name: string, files: Record<string, string>, mode?: number): { repo: string };
  /** Everything that must not change about the files of a directory. */
  fingerprint(repo: string): string;
  open(tree: string, repo: string, more?: More): Promise<LayerBox>;
  runOnce(tree: string, repo: string, level: 'L1' | 'L2', script: string): Promise<string>;
  killWarden(): void;
  /** In split mode. */
  killSandboxd(): void;
  stop(): Promise<void>;
};

const RULES: BoxRules = { read: [], write: ['/workspace', '/home/coder'], deny: [] };

type LayerWorldOptions = Pick<RuntimeOptions, 'mode' | 'faults'> & OnOverlay;

export async function startLayerWorld(
  mode: Mode,
  { stateOn, peopleOn, disk, ...options }: LayerWorldOptions = {},
  /** The directories are below one that the site allows, unless this names something else. */
  sandboxd?: object,
): Promise<LayerWorld> {
  const { base, people: roots, unmount } = makePlaces({ stateOn, peopleOn, disk });
  mkdirSync(roots, { recursive: true, mode: 0o755 });
  const asUser = mode === 'user' && IS_ROOT;
  const person = asUser ? { uid: NOBODY, gid: NOBODY } : IS_ROOT ? PERSON : undefined;
  const runtime = await startRuntime({
    base,
    agents: TEAM,
    ...options,
    config: JSON.stringify({
      sandboxd: { runner_spares: 0, ...(sandboxd ?? { workspace_roots: [roots] }) },
    }),
    ...(asUser ? { uid: NOBODY } : {}),
  });
  const connect = (peer: 'peer-toold' | 'peer-agentd') => {
    const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', peer);
    return makeClient(sandboxdRoutes, socketLink({ socketPath }));
  };
  const [toold, agentd] = [connect('peer-toold'), connect('peer-agentd')];
  let made = 0;
  const treeId = (tree: string) => deriveId<TaskId>('task', 'layers', mode, tree);
  const ownerOf = (tree: string) => ({
    run_id: deriveId<RunId>('run', mode, tree, made++),
    fence: 1,
    task_id: treeId(tree),
    root_task_id: treeId(tree),
    network: { egress_socket: null },
    workspace_mode: 'layer' as const,
  });
  const toOutput = (end: Collected, script: string): string => {
    const [out, err] = [end.stdout_base64, end.stderr_base64].map((text) =>
      Buffer.from(text, 'base64').toString(),
    );
    assert.equal(end.exit_code, 0, `${script}: ${end.ended_by} ${end.note ?? ''} ${err}`);
    return out!;
  };
  const command = (script: string) => ({
    call_id: deriveId<CallId>('call', mode, made++),
    argv: ['/bin/sh', '-c', script],
    collect: true,
  });

  return {
    base,
    people: roots,
    runtime,
    toold,
    agentd,
    treeId,
    directory(name, files, fileMode = 0o644) {
      const repo = join(roots, name);
      mkdirSync(repo, { recursive: true });
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(dirname(join(repo, path)), { recursive: true });
        writeFileSync(join(repo, path), text);
        chmodSync(join(repo, path), fileMode);
      }
      if (person !== undefined)
        for (const path of ['.', ...readdirSync(repo, { recursive: true, encoding: 'utf8' })])
          chownSync(join(repo, path), person.uid, person.gid);
      return { repo };
    },
    fingerprint,
    async open(tree, repo, more = {}) {
      const params = { id: deriveId<BoxId>('box', mode, made++) };
      const body = { ...ownerOf(tree), agent: 'coder', level: 'L2' as const, rules: RULES };
      const view = await toold.openBox({
        params,
        body: { ...body, workspace_path: repo, ...more },
      });
      return {
        view,
        async run(script) {
          const end = await toold.execBox({ params, body: command(script) });
          return toOutput(end as Collected, script);
        },
        exec: async (script) =>
          (await toold.execBox({ params, body: command(script) })) as Collected,
        file: (body_) => toold.boxFiles({ params, body: body_ as never }),
        close: () => toold.closeBox({ params }),
      };
    },
    async runOnce(tree, repo, level, script) {
      const whose = { ...ownerOf(tree), agent: 'coder', level, rules: RULES, workspace_path: repo };
      return toOutput(
        (await toold.runOnce({ body: { ...whose, ...command(script) } })) as Collected,
        script,
      );
    },
    killWarden() {
      for (const pid of wardensOf(runtime.stateDir)) process.kill(pid, 'SIGKILL');
    },
    killSandboxd: () => process.kill(daemonPids(runtime.runtimePid).get('sandboxd')!, 'SIGKILL'),
    stop: () => runtime.remove().finally(unmount),
  };
}
