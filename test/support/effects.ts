// A runtime whose agents make countable changes in real boxes: a line in a file, an edit, a commit,
// an effect of a declared program, a request that a server received.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { startHttp, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { GIT_ENV } from './git-env.ts';
import { killRequested } from './kills.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from './runtime.ts';
import { call, finishes, type ScriptedText, says, startScriptedModel } from './scripted-model.ts';
import { manifestOf, scriptedModels } from './scripted-world.ts';

const HOST = 'good.test';
const toolIn = (place: string, more: string) => `name: line.${place}
description: Adds a line.
argv: [/bin/sh, -c, 'echo "$1" >> "$2"', sh, '{key}', '{file}']
input:
  key: { type: string, pattern: '[a-z0-9]+' }
  file: { type: string, pattern: '[a-zA-Z0-9/._-]+' }
place: ${place}
risk: low
reversibility: reversible
idempotent: false
${more}`;

/** The calls to make for an effect, and how often it has happened. */
type Effect = { calls(key: string): ScriptedText['calls']; times(key: string): number };

export type EffectName = 'shell' | 'write' | 'edit' | 'commit' | 'box-tool' | 'host-tool' | 'post';

export type Effects = {
  runtime: TestRuntime;
  effects: Record<EffectName, Effect>;
  /** At this failpoint, after `passes` passes, kills `who`, by default the daemon that has it. */
  armCrash(failpoint: string, options?: { passes?: number; who?: string | undefined }): void;
  hasCrashed(): boolean;
  /** Runs a task with this effect in a prepared workspace; questions are answered truthfully. */
  work(name: EffectName, key: string): Promise<{ task: TaskView; questions: number }>;
  /** The same, with the given calls. */
  workOn(key: string, calls: ScriptedText['calls']): Promise<{ task: TaskView; questions: number }>;
  workspaceOf(key: string): string;
  /** Requests that the server received. */
  seen: string[];
  url(path: string): string;
  stop(): Promise<void>;
};

export async function startEffects(mode: 'embedded' | 'split'): Promise<Effects> {
  const base = freshDir();
  const roots = join(base, 'ws');
  // A box has its own /tmp.
  const written = mkdtempSync('/var/tmp/agentd-t-');
  const seen: string[] = [];
  const web: WirePosition = await startHttp((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    response.end('done');
  });
  const model = await startScriptedModel();
  mkdirSync(join(base, 'state', 'tools'), { recursive: true, mode: 0o700 });
  mkdirSync(roots);
  // Agents have other users there.
  chmodSync(written, 0o1777);
  writeFileSync(join(base, 'state', 'tools', 'box.yaml'), toolIn('box', ''));
  writeFileSync(
    join(base, 'state', 'tools', 'host.yaml'),
    toolIn('host', `read: [/usr, /bin, /lib, /lib64]\nwrite: [${written}]\n`),
  );
  const spec = {
    replicas: 8,
    tools: {
      allow: [
        'file.read',
        'file.write_workspace',
        'git.read',
        'git.write_branch',
        'shell.exec',
        'line.box',
        'line.host',
        'http.fetch',
        'network.external',
      ],
    },
    network: {
      mode: 'restricted',
      allow: [`${HOST}:${web.port}`],
      change: { [`${HOST}:${web.port}`]: ['POST'] },
    },
  };
  let runtime = await startRuntime({
    base,
    mode,
    faults: true,
    agents: { coder: manifestOf('coder', JSON.stringify(spec)) },
    config: JSON.stringify({
      agentd: { crashes_max: 100_000 },
      modeld: scriptedModels(model.url),
      // A spare runner would hold up every check that nothing is left.
      sandboxd: { workspace_roots: [roots], write_roots: [written], runner_spares: 0 },
      egressd: { hosts: { [HOST]: '127.0.0.1' }, allow_private: [`${HOST}:${web.port}`] },
    }),
  });
  const crashFile = join(base, 'state', 'crash-at');
  setInterval(() => killRequested(runtime), 5).unref();
  const workspaceOf = (key: string) => join(roots, key);
  const url = (path: string) => `http://${HOST}:${web.port}/${path}`;
  const linesIn = (file: string, key: string): number =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line === key).length
      : 0;
  const git = (key: string, ...args: string[]) =>
    execFileSync('git', ['-c', 'safe.directory=*', ...args], {
      cwd: workspaceOf(key),
      env: GIT_ENV,
      encoding: 'utf8' as const,
    });

  /** A closing box removes the stub of `commondir`, perhaps while git reads it. */
  const subjectsOf = (key: string): string[] => {
    for (let triesLeft = 5; ; triesLeft--) {
      try {
        return git(key, 'log', '--format=%s').split('\n');
      } catch (error) {
        if (triesLeft === 0 || !/commondir/.test(String(error))) throw error;
      }
    }
  };

  /** Creates a repository with an uncommitted change. */
  const makeReady = (key: string): void => {
    mkdirSync(workspaceOf(key));
    git(key, 'init', '--quiet', '--initial-branch=main');
    writeFileSync(join(workspaceOf(key), 'count'), 'times:\n');
    git(key, 'add', '.');
    git(key, 'commit', '--quiet', '-m', 'first');
    writeFileSync(join(workspaceOf(key), 'new'), 'new\n');
  };

  const inWorkspace = (key: string) => join(workspaceOf(key), 'lines');
  const effects: Effects['effects'] = {
    shell: {
      calls: (key) => [call('shell.exec', { command: `echo ${key} >> lines; sleep 0.2` })],
      times: (key) => linesIn(inWorkspace(key), key),
    },
    write: {
      calls: (key) => [call('file.write', { path: 'lines', text: `${key}\n` })],
      times: (key) => linesIn(inWorkspace(key), key),
    },
    edit: {
      calls: () => [
        call('file.edit', {
          path: 'count',
          edits: [{ old_text: 'times:', new_text: 'times: once more' }],
        }),
      ],
      times: (key) =>
        readFileSync(join(workspaceOf(key), 'count'), 'utf8').split('once more').length - 1,
    },
    commit: {
      calls: (key) => [call('git.commit', { message: key, all: true })],
      times: (key) => subjectsOf(key).filter((line) => line === key).length,
    },
    'box-tool': {
      calls: (key) => [call('line.box', { key, file: 'lines' })],
      times: (key) => linesIn(inWorkspace(key), key),
    },
    'host-tool': {
      calls: (key) => [call('line.host', { key, file: join(written, key) })],
      times: (key) => linesIn(join(written, key), key),
    },
    post: {
      calls: (key) => [call('http.fetch', { url: url(key), method: 'POST', body: 'x' })],
      times: (key) => seen.filter((line) => line === `POST /${key}`).length,
    },
  };

  const nameOf = new Map<string, EffectName>();
  /** Answers truthfully and approves everything; restarts a runtime that has ended. */
  const answerAll = async (): Promise<number> => {
    const { exitCode, signalCode } = runtime.process;
    if (exitCode !== null || signalCode !== null) runtime = await runtime.restart();
    const { approvals } = await runtime.approvald.listApprovals({ query: { status: 'pending' } });
    for (const { id } of approvals) {
      const { approval } = await runtime.approvald.getApproval({ params: { id } });
      const body = { for: 'once', nonce: approval.nonce } as const;
      await runtime.approvald.approve({ params: { id }, body });
    }
    const query = { status: 'open', kind: 'question', limit: 100 } as const;
    const { waits } = await runtime.agentd.listWaits({ query });
    for (const wait of waits) {
      const { task } = await runtime.agentd.getTask({ params: { id: wait.task_id } });
      const key = task.goal.split(' ').at(-1)!;
      const happened = effects[nameOf.get(key)!].times(key) > 0;
      const answer = wait.choices[happened ? 0 : 1]!;
      await runtime.agentd.answerWait({ params: { id: wait.id }, body: { answer } });
    }
    return waits.length;
  };

  const workOn: Effects['workOn'] = async (key, calls = []) => {
    const goal = `Change something, as ${key}`;
    model.on(goal, ...calls.map((toolCall) => says(toolCall)), ({ results }) =>
      finishes(results.join('\n')),
    );
    makeReady(key);
    const mode = { workspace_mode: 'live' as const };
    const body = { goal, agent: 'coder', workspace: workspaceOf(key), ...mode };
    let questions = 0;
    const { task } = await eventually('a task to be taken', async () => {
      await answerAll();
      return runtime.agentd.createTask({ body }, { idempotencyKey: key });
    });
    const ended = await eventually(
      `the end of ${key}`,
      async () => {
        questions += await answerAll();
        const now = await runtime.agentd.getTask({ params: { id: task.id } });
        return now.task.ended_at === null ? undefined : now.task;
      },
      120_000,
    );
    return { task: ended, questions };
  };

  return {
    get runtime() {
      return runtime;
    },
    effects,
    workspaceOf,
    seen,
    url,
    workOn,
    armCrash: (failpoint, { passes = 0, who } = {}) =>
      writeFileSync(crashFile, [failpoint, passes, who ?? ''].join(' ').trim()),
    hasCrashed: () => !existsSync(crashFile),
    work(name, key) {
      nameOf.set(key, name);
      return workOn(key, effects[name].calls(key));
    },
    async stop() {
      await runtime.remove();
      await model.close();
      await web.close();
      for (const dir of [base, written]) rmSync(dir, { recursive: true, force: true });
    },
  };
}
