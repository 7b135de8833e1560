// A mark set while a run is live: modeld learns of it before the run does, so a provider that may
// not see outside text is not called, whatever labels the run claims.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import { makeCallId } from '../../src/wire/call-id.ts';
import { modeldRoutes } from '../../src/wire/modeld.ts';
import type { TaskId } from '../../src/wire/primitives.ts';
import { type CallAnswer, tooldRoutes } from '../../src/wire/toold.ts';
import {
  type CallerOutcome,
  callSocket,
  type IdleWorld,
  type LiveRun,
  runSocketOf,
  startIdleWorld,
} from '../support/callers.ts';
import { eventually, freshDir } from '../support/runtime.ts';
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts';
import { manifestOf, scriptedModels } from '../support/scripted-world.ts';

const VAULT = `name: vault.show
description: Show what is kept.
argv: [/bin/echo, a name that is nobody’s business]
risk: low
reversibility: read-only
idempotent: true
output_labels: [secret]
`;

describe('marks of a live run', () => {
  let world: IdleWorld;
  let model: ScriptedModel;
  let site: http.Server;
  let page: string;
  before(async () => {
    model = await startScriptedModel();
    site = http.createServer((_, response) => response.end('words of a stranger'));
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    const at = `docs.example.com:${(site.address() as AddressInfo).port}`;
    page = `http://${at}/`;
    const models = scriptedModels(model.url);
    const labels_allowed = ['person', 'own', 'agent', 'tool'];
    const tools = join(freshDir(), 'tools');
    mkdirSync(tools, { mode: 0o700 });
    writeFileSync(join(tools, 'vault.yaml'), VAULT, { mode: 0o600 });
    world = await startIdleWorld({
      upstream: model.url,
      toold: { tools_dir: tools },
      modeld: {
        ...models,
        providers: { scripted: { ...models.providers.scripted, labels_allowed } },
      },
      egressd: { hosts: { 'docs.example.com': '127.0.0.1' }, allow_private: [at] },
      agents: Object.fromEntries(
        ['worker', 'helper'].map((name) => [
          name,
          manifestOf(
            name,
            '{ replicas: 20, tools: { allow: [vault.show, http.fetch, logs.read, file.read, file.write_workspace, shell.exec, task.delegate] }, ' +
              `network: { mode: restricted, allow: ["${at}"] } }`,
          ),
        ]),
      ),
    });
  });
  after(async () => {
    await world.stop();
    await model.close();
    site.close();
  });

  let step = 0;
  const use = async (run: LiveRun, tool: string, args: object, callId = run.callId(step++)) => {
    const body = { call_id: callId, tool, arguments: args };
    return callSocket(runSocketOf(world, 'toold', run), tooldRoutes.call, { body });
  };
  const doneWith = (outcome: CallerOutcome): CallAnswer => {
    assert.ok(outcome.ok, JSON.stringify(outcome));
    const callResult = outcome.value as CallAnswer;
    assert.equal(callResult.status, 'completed', JSON.stringify(callResult));
    return callResult;
  };
  /** Calls the model as a runner that claims no labels. */
  const think = async (run: LiveRun): Promise<string> => {
    const parts = [{ type: 'text', text: 'what now' }];
    const body = { model: 'default', messages: [{ role: 'user', parts }] };
    const path = runSocketOf(world, 'modeld', run);
    const outcome = await callSocket(path, modeldRoutes.generate, { body });
    return outcome.ok ? 'answered' : String(outcome.code);
  };

  it('[R10] [R401] a result of http.fetch marks the next model call', async () => {
    const run = await world.startRun();
    assert.equal(await think(run), 'answered');
    const fetched = doneWith(await use(run, 'http.fetch', { url: page }));
    assert.equal(fetched.result?.text, 'words of a stranger');
    const before = model.scenes.length;
    assert.equal(await think(run), 'data_not_allowed');
    assert.equal(model.scenes.length, before);
  });

  it('[R10] [R401] a result of logs.read marks the next model call', async () => {
    const run = await world.startRun();
    doneWith(await use(run, 'file.write', { path: 'app.log', text: 'a line' }));
    assert.equal(await think(run), 'answered');
    assert.equal(doneWith(await use(run, 'logs.read', { path: 'app.log' })).result?.text, 'a line');
    assert.equal(await think(run), 'data_not_allowed');
  });

  it('[R10] [R401] a fetch by a command marks the next model call', async () => {
    const run = await world.startRun();
    doneWith(await use(run, 'shell.exec', { command: 'echo nothing of others' }));
    assert.equal(await think(run), 'answered');
    const fetched = doneWith(await use(run, 'shell.exec', { command: `curl -sS ${page}` }));
    assert.equal(fetched.result?.stdout, 'words of a stranger');
    assert.equal(await think(run), 'data_not_allowed');
  });

  it('[R401] a command killed during a fetch leaves a marked workspace', async () => {
    const reader = await world.startRun();
    const { task } = await world.agentd.getTask({ params: { id: reader.taskId } });
    const running = use(reader, 'shell.exec', {
      command: `curl -sS -o fetched ${page} && touch done && sleep 60`,
    });
    await eventually('the file', async () => {
      const found = await use(reader, 'file.read', { path: 'done' });
      return found.ok && (found.value as CallAnswer).status === 'completed' ? true : undefined;
    });
    await world.agentd.cancelTask({ params: { id: reader.taskId }, body: {} });
    await running;
    const db = new DatabaseSync(join(world.stateDir, 'toold.sqlite'), { readOnly: true });
    const marks = await eventually('the mark', async () => {
      const rows = db.prepare('SELECT * FROM place_marks WHERE place = ?');
      return rows.all(task.root_task_id)[0];
    });
    db.close();
    assert.equal(marks.label, 'outside');
  });

  it('[R401] a running command can send nothing once the mark is set', async () => {
    const reader = await world.startRun();
    const { task } = await world.agentd.getTask({ params: { id: reader.taskId } });
    const writer = await helperIn(task.context_id);
    doneWith(await use(writer, 'http.fetch', { url: page }));
    const stored = doneWith(
      await use(writer, 'artifact.put', { name: 'a', text: 'of a stranger' }),
    );
    const post = `curl -sS -o /dev/null -w '%{http_code} ' -d x ${page}`;
    const wait = 'touch ready; while ! test -e go; do sleep 0.1; done';
    const running = use(reader, 'shell.exec', { command: `${post}; ${wait}; ${post}` });
    const read = (path: string) => use(reader, 'file.read', { path });
    await eventually('the command', async () => {
      const found = await read('ready');
      return found.ok && (found.value as CallAnswer).status === 'completed' ? true : undefined;
    });
    doneWith(await use(reader, 'artifact.get', { id: stored.result?.id }));
    writeFileSync(join(world.stateDir, 'workspaces', task.root_task_id, 'go'), '');
    assert.equal(doneWith(await running).result?.stdout, '200 403 ');
  });

  it('[R401] files written by a marked run carry its mark, whatever its source', async () => {
    const reader = await world.startRun();
    const { task } = await world.agentd.getTask({ params: { id: reader.taskId } });
    const writer = await helperIn(task.context_id);
    doneWith(await use(writer, 'http.fetch', { url: page }));
    const stored = doneWith(
      await use(writer, 'artifact.put', { name: 'a', text: 'of a stranger' }),
    );
    const third = await helperIn(task.context_id);
    const { task: own } = await world.agentd.getTask({ params: { id: third.taskId } });
    doneWith(await use(third, 'artifact.get', { id: stored.result?.id }));
    doneWith(await use(third, 'file.write', { path: 'copy', text: 'of a stranger' }));
    const db = new DatabaseSync(join(world.stateDir, 'toold.sqlite'), { readOnly: true });
    const rows = db.prepare('SELECT label FROM place_marks WHERE place = ?');
    const labels = rows.all(own.root_task_id).map(({ label }) => label);
    db.close();
    assert.deepEqual(labels, ['outside']);
  });

  it('[R400] a marked workspace marks the run before its first call there', async () => {
    const parent = await world.startRun();
    doneWith(await use(parent, 'file.write', { path: 'a', text: 'own' }));
    doneWith(await use(parent, 'file.delete', { path: 'a' }));
    const given = { agent: 'helper', goal: 'Read', wait: false };
    const { result } = doneWith(await use(parent, 'task.delegate', given));
    const child = await helperOf(result?.task_id as TaskId);
    doneWith(await use(child, 'http.fetch', { url: page }));
    doneWith(await use(child, 'file.write', { path: 'b', text: 'words of a stranger' }));
    const outcome = await use(parent, 'file.delete', { path: 'b' });
    assert.equal(
      outcome.ok && (outcome.value as CallAnswer).status,
      'waiting',
      JSON.stringify(outcome),
    );
  });

  it('[R401] reading a file of a marked workspace marks the run, without any message', async () => {
    const parent = await world.startRun();
    const given = { agent: 'helper', goal: 'Read', wait: false };
    const { result } = doneWith(await use(parent, 'task.delegate', given));
    const child = await helperOf(result?.task_id as TaskId);
    doneWith(await use(child, 'http.fetch', { url: page }));
    doneWith(await use(child, 'file.write', { path: 'copy', text: 'words of a stranger' }));
    assert.equal(await think(parent), 'answered', 'the parent has not read it yet');
    const read = doneWith(await use(parent, 'file.read', { path: 'copy' }));
    assert.equal(read.result?.text, 'words of a stranger');
    assert.equal(await think(parent), 'data_not_allowed');
  });

  it('[R401] reading what another run downloads meanwhile marks the run', async () => {
    for (const [source, expected] of [
      ['echo own words', 'answered'],
      [`curl -sS ${page}`, 'data_not_allowed'],
    ] as const) {
      const parent = await world.startRun();
      const given = { agent: 'helper', goal: 'Read', wait: false };
      const { result } = doneWith(await use(parent, 'task.delegate', given));
      const child = await helperOf(result?.task_id as TaskId);
      const wait = (name: string) => `while ! test -s ${name}; do sleep 0.05; done`;
      const loading = use(child, 'shell.exec', {
        command: `${source} >copy; ${wait('seen')}; sleep 1`,
      });
      const reading = { command: `${wait('copy')}; cat copy; echo yes >seen` };
      const read = doneWith(await use(parent, 'shell.exec', reading));
      assert.match(String(read.result?.stdout), /words/);
      assert.equal(await think(parent), expected, source);
      doneWith(await loading);
    }
  });

  it('[R401] a workspace inside or around a marked one marks its runs', async () => {
    const [outer, inner] = [join(world.workspace, 'a'), join(world.workspace, 'a/b')];
    for (const dir of [`${inner}/c`, `${outer}/bc`, join(world.workspace, 'ab')])
      mkdirSync(dir, { recursive: true });
    const runIn = async (workspace: string) => {
      const mode = { workspace_mode: 'live' as const };
      const body = { goal: 'Read', agent: 'helper', workspace, ...mode };
      return helperOf((await world.agentd.createTask({ body })).task.id);
    };
    const writer = await runIn(inner);
    doneWith(await use(writer, 'http.fetch', { url: page }));
    doneWith(await use(writer, 'file.write', { path: 'c/copy', text: 'words of a stranger' }));
    for (const [workspace, path] of [
      [outer, 'b/c/copy'],
      [join(inner, 'c'), 'copy'],
    ] as const) {
      const reader = await runIn(workspace);
      const read = doneWith(await use(reader, 'file.read', { path }));
      assert.equal(read.result?.text, 'words of a stranger');
      assert.equal(await think(reader), 'data_not_allowed', workspace);
    }
    for (const workspace of [`${outer}/bc`, join(world.workspace, 'ab')]) {
      const other = await runIn(workspace);
      doneWith(await use(other, 'file.write', { path: 'own', text: 'own' }));
      assert.equal(await think(other), 'answered', workspace);
    }
  });

  it('[C160] [R10] [R401] a subtask of a marked run is marked from the start', async () => {
    const parent = await world.startRun();
    doneWith(await use(parent, 'http.fetch', { url: page }));
    const given = { agent: 'helper', goal: 'Do as it says there', wait: false };
    const { result } = doneWith(await use(parent, 'task.delegate', given));
    const id = result?.task_id as TaskId;
    const { task } = await world.agentd.getTask({ params: { id } });
    assert.ok(task.labels.includes('outside'), task.labels.join());
    assert.equal(await think(await helperOf(id)), 'data_not_allowed', 'its goal is outside text');
  });

  it('[R104] a declared tool’s output labels mark the run and its files', async () => {
    const run = await world.startRun();
    assert.equal(await think(run), 'answered');
    doneWith(await use(run, 'vault.show', {}));
    assert.equal(await think(run), 'data_not_allowed');
    const { task } = await world.agentd.getTask({ params: { id: run.taskId } });
    assert.ok(task.labels.includes('secret') && !task.labels.includes('outside'));
    doneWith(await use(run, 'file.write', { path: 'kept', text: 'a name' }));
    const db = new DatabaseSync(join(world.stateDir, 'toold.sqlite'), { readOnly: true });
    const rows = db.prepare('SELECT * FROM place_marks WHERE place = ?');
    assert.deepEqual(
      rows.all(task.root_task_id).map(({ label }) => label),
      ['secret'],
    );
    db.close();
  });

  it('[R10] no result is shown until modeld knows of the mark', async () => {
    const run = await world.startRun();
    const modeld = world.hosted.get('modeld')!;
    const callId = run.callId(step++);
    world.hosted.delete('modeld');
    const away = await use(run, 'http.fetch', { url: page }, callId);
    world.hosted.set('modeld', modeld);
    assert.equal(away.ok ? 'shown' : away.code, 'unavailable');
    assert.doesNotMatch(JSON.stringify(away), /stranger/);
    const shown = doneWith(await use(run, 'http.fetch', { url: page }, callId));
    assert.equal(shown.result?.text, 'words of a stranger');
    assert.equal(await think(run), 'data_not_allowed');
  });

  it('[R10] a message from a marked agent marks the run at the step that reads it', async () => {
    const reader = await world.startRun();
    const { task } = await world.agentd.getTask({ params: { id: reader.taskId } });
    const writer = await helperIn(task.context_id);
    doneWith(await use(writer, 'http.fetch', { url: page }));
    const inbox = async (step: number) => {
      const path = runSocketOf(world, 'agentd', reader);
      const outcome = await callSocket(path, agentdRoutes.runInbox, { body: { step } });
      assert.ok(outcome.ok, JSON.stringify(outcome));
      return (outcome.value as { messages: unknown[] }).messages.length;
    };
    assert.equal(await inbox(0), 0);
    assert.equal(await think(reader), 'answered');
    doneWith(await use(writer, 'message.send', { to: 'agent:worker', text: 'look at this' }));
    assert.equal(await think(reader), 'answered', 'it has not read it yet');
    assert.equal(await inbox(1), 1);
    assert.equal(await think(reader), 'data_not_allowed');
  });

  /** Starts a run of the helper in another run's thread. */
  async function helperIn(contextId: string): Promise<LiveRun> {
    const body = { goal: 'Read', agent: 'helper', context_id: contextId as never };
    return helperOf((await world.agentd.createTask({ body })).task.id);
  }

  async function helperOf(taskId: TaskId): Promise<LiveRun> {
    const run = await eventually('the helper', async () => {
      const { runs } = await world.agentd.listRuns({ query: { task_id: taskId } });
      const [live] = runs.filter(({ status }) => status === 'live');
      const isOpen = (name: 'toold' | 'modeld') => existsSync(runSocketOf(world, name, live!));
      return live !== undefined && isOpen('toold') && isOpen('modeld') ? live : undefined;
    });
    const { id, fence } = run;
    const caller = { ...world.someRun.caller, runId: id, fence, agent: 'helper', taskId };
    const callId = (n: number) => makeCallId(id, 't', n);
    return { id, fence, caller, callId, taskId };
  }
});
