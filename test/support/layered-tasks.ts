// Tasks that work in layers over directories of a person, in a whole runtime with a scripted model,
// and agentctl as that person. As root, where the person is another user, and as an ordinary user.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { isFault } from '../../src/platform/daemon.ts';
import type { TaskId } from '../../src/wire/primitives.ts';
import { type CtlResult, ctl } from './backups.ts';
import type { LAYER_MODES } from './layers.ts';
import { makePlaces, type OnOverlay } from './overlay.ts';
import { type RuntimeOptions, startRuntime, type TestRuntime, taskEnded } from './runtime.ts';
import { call, finishes, type ScriptedModel, says, startScriptedModel } from './scripted-model.ts';
import { manifestOf, scriptedModels } from './scripted-world.ts';

const NOBODY = 65_534;
const PERSON = 12_345;
const IS_ROOT = process.getuid?.() === 0;
const SPEC = {
  replicas: 2,
  tools: {
    allow: ['file.read', 'file.write_workspace', 'shell.exec', 'vault.show', 'task.delegate'],
  },
};
const VAULT = `name: vault.show
description: Show what is kept.
argv: [/bin/echo, a name that is nobody's business]
risk: low
reversibility: read-only
idempotent: true
output_labels: [secret]
`;

export type LayeredTasks = {
  base: string;
  model: ScriptedModel;
  /** The directory in which directories of the person are made. */
  people: string;
  /** The user who runs agentctl, if that is not this one. */
  uid: number | undefined;
  /** The owner of the person's files, if that is not this user. */
  owner: number | undefined;
  runtime(): TestRuntime;
  /** Why no layer can be opened here, or undefined. */
  missing: string | undefined;
  makeDirectory(name: string, files: Record<string, string>): string;
  /** Makes everything in it the person's. */
  give(dir: string): void;
  /** A task whose agent runs these commands; `vault` marks it. */
  work(workspace: string, ...commands: string[]): Promise<{ id: TaskId; goal: string }>;
  run(...words: string[]): Promise<CtlResult>;
  /** Returns what it prints; it must succeed. */
  done(...words: string[]): Promise<string>;
  stop(): Promise<void>;
};

type LayeredOptions = Pick<RuntimeOptions, 'mode' | 'faults'> & OnOverlay & { sandboxd?: object };

export async function startLayeredTasks(
  mode: (typeof LAYER_MODES)[number],
  policies: (people: string) => Record<string, string> = () => ({}),
  { stateOn, peopleOn, disk, sandboxd = {}, ...options }: LayeredOptions = {},
): Promise<LayeredTasks> {
  const { base, people, unmount } = makePlaces({ stateOn, peopleOn, disk });
  const uid = mode === 'user' && IS_ROOT ? NOBODY : undefined;
  const owner = IS_ROOT ? (uid ?? PERSON) : undefined;
  const model = await startScriptedModel();
  for (const dir of [people, join(base, 'tools'), join(base, 'policies')])
    mkdirSync(dir, { mode: 0o755 });
  writeFileSync(join(base, 'tools', 'vault.yaml'), VAULT, { mode: 0o644 });
  for (const [name, text] of Object.entries(policies(people)))
    writeFileSync(join(base, 'policies', `${name}.cedar`), text, { mode: 0o644 });
  const models = scriptedModels(model.url);
  const labels_allowed = ['person', 'own', 'agent', 'tool', 'outside', 'secret'];
  const scripted = { ...models.providers.scripted, labels_allowed };
  const config = {
    agentd: { policies_dir: join(base, 'policies') },
    modeld: { ...models, providers: { scripted } },
    toold: { tools_dir: join(base, 'tools') },
    sandboxd: { workspace_roots: [people], ...sandboxd },
  };
  const runtime = await startRuntime({
    base,
    agents: {
      coder: manifestOf('coder', JSON.stringify(SPEC)),
      helper: manifestOf('helper', JSON.stringify(SPEC)),
    },
    config: JSON.stringify(config),
    ...options,
    ...(uid === undefined ? {} : { uid }),
  }).catch(async (error: unknown) => {
    await model.close();
    unmount();
    throw error;
  });
  const create = async (goal: string, workspace: string) => {
    const more = { agent: 'coder', workspace, workspace_mode: 'layer' as const };
    return (await runtime.agentd.createTask({ body: { goal, ...more } })).task;
  };
  const give = (dir: string): void => {
    if (owner === undefined) return;
    for (const path of ['.', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })])
      chownSync(join(dir, path), owner, owner);
  };
  const makeDirectory = (name: string, files: Record<string, string>): string => {
    const dir = join(people, name);
    mkdirSync(dir, { recursive: true });
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(dir, path, '..'), { recursive: true });
      writeFileSync(join(dir, path), text);
      chmodSync(join(dir, path), 0o644);
    }
    give(dir);
    return dir;
  };
  const missing = await create('Try', makeDirectory('try', {})).then(
    async (task) => void (await taskEnded(runtime, task.id)),
    (error: unknown) => {
      if (isFault(error, 'level_unavailable')) return error.message;
      throw error;
    },
  );
  let made = 0;
  const run = (...words: string[]): Promise<CtlResult> => ctl(runtime, words, { uid });
  return {
    base,
    model,
    people,
    uid,
    owner,
    runtime: () => runtime,
    missing,
    makeDirectory,
    give,
    async work(workspace, ...commands) {
      const goal = `Work in ${workspace}, for the ${++made}th time`;
      const lines = commands.map((command) =>
        says(command === 'vault' ? call('vault.show') : call('shell.exec', { command })),
      );
      model.on(goal, ...lines, ({ results }) => finishes(results.join('\n')));
      const ended = await taskEnded(runtime, (await create(goal, workspace)).id);
      assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
      return { id: ended.id, goal };
    },
    run,
    async done(...words) {
      const { code, stdout, stderr } = await run(...words);
      assert.equal(code, 0, `${words.join(' ')}: ${stderr}`);
      return stdout;
    },
    async stop() {
      await runtime.remove();
      await model.close();
      unmount();
    },
  };
}

/** Each file with its content, but those of git; `x` before those that can be executed. */
export const listFiles = (dir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true, encoding: 'utf8' })
      .filter((path) => !path.startsWith('.git') && statSync(join(dir, path)).isFile())
      .sort()
      .map((path) => {
        const isExecutable = (statSync(join(dir, path)).mode & 0o100) !== 0;
        return [path, `${isExecutable ? 'x ' : ''}${readFileSync(join(dir, path), 'utf8')}`];
      }),
  );
