// A person at a terminal starts, uses, inspects and stops the runtime with bin/agentctl alone, and
// scripts can rely on its JSON and exit codes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { AgentView, RunView, StatusView, TaskView, WaitView } from '../../src/wire/agentd.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import type { UsageRow } from '../../src/wire/modeld.ts';
import { eventually, freshDir, ROOT } from '../support/runtime.ts';
import { manifestOf } from '../support/scripted-world.ts';

type Ran = { code: number | null; stdout: string; stderr: string };
type Status = StatusView & { rehearsal: boolean };
type Problem = { error: { code: string; message: string; hint: string } };

describe('agentctl', () => {
  const base = freshDir();
  const stateDir = join(base, 's');
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: process.env.HOME ?? base,
    XDG_RUNTIME_DIR: join(base, 'r'),
    AGENTD_KEEPER_DIR: join(base, 'keeper'),
    AGENTD_STATE: stateDir,
    USER: 'alice',
  };
  mkdirSync(env.XDG_RUNTIME_DIR, { mode: 0o700 });

  const run = (...words: string[]): Promise<Ran> =>
    new Promise((resolve, reject) => {
      const child = spawn(join(ROOT, 'bin', 'agentctl'), words, {
        env,
        cwd: base,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const ran = { stdout: '', stderr: '' };
      for (const name of ['stdout', 'stderr'] as const)
        child[name]!.setEncoding('utf8').on('data', (text: string) => {
          ran[name] += text;
        });
      child.on('error', reject);
      child.on('close', (code) => resolve({ code, ...ran }));
    });
  const ok = async (...words: string[]): Promise<string> => {
    const ran = await run(...words);
    assert.equal(ran.code, 0, `agentctl ${words.join(' ')}\n${ran.stdout}${ran.stderr}`);
    return ran.stdout;
  };
  const json = async <T>(...words: string[]): Promise<T> => {
    const text = await ok(...words, '--json');
    assert.equal(text.trim().split('\n').length, 1, 'one document on one line');
    return JSON.parse(text) as T;
  };
  const fails = async (
    exit: number,
    code: string,
    ...words: string[]
  ): Promise<Problem['error']> => {
    const ran = await run(...words, '--json');
    assert.equal(ran.code, exit, `agentctl ${words.join(' ')}\n${ran.stdout}${ran.stderr}`);
    const { error } = JSON.parse(ran.stdout.trim() || ran.stderr.trim()) as Problem;
    assert.equal(error.code, code);
    assert.ok(error.message !== '' && error.hint !== '');
    return error;
  };
  const createTask = async (...words: string[]) =>
    (await json<{ task: TaskView }>('task', 'create', ...words)).task;
  const show = async (id: string) => (await json<{ task: TaskView }>('task', 'show', id)).task;

  before(async () => {
    const agents = join(base, 'agents');
    mkdirSync(agents);
    // Written by daemons that are not root.
    chmodSync(agents, process.getuid?.() === 0 ? 0o777 : 0o700);
    for (const name of ['planner', 'researcher', 'coder'])
      writeFileSync(
        join(agents, `${name}.yaml`),
        readFileSync(join(ROOT, 'presets', 'starter', `${name}.yaml`), 'utf8'),
      );
    writeFileSync(join(agents, 'deployer.yaml'), manifestOf('deployer', '{}', 'Deploys.'));
    const output = await ok('up', '--agents', agents);
    assert.match(output, /rehearsal/i, 'it names the model');
  });
  after(async () => {
    await run('down');
    rmSync(base, { recursive: true, force: true });
  });

  it('[K29] [R47] status shows what is running, and that it is a rehearsal', async () => {
    const { status } = await json<{ status: Status }>('status');
    assert.equal(status.halted, false);
    assert.equal(status.rehearsal, true);
    assert.equal(status.agents.active, 4);
    const shown = await ok('status');
    assert.match(shown, /rehearsal/i);
    assert.match(shown, /^daemons +\d+ running$/m);
    assert.match(shown, /^tasks +none yet$/m);
    assert.match(shown, /^spent today +\$0\.0000, 0 tokens$/m);
    assert.match(await ok('doctor'), /not protected/i);
    assert.match(await ok('version'), /\d+\.\d+\.\d+/);
    const { code, stdout } = await run('up');
    assert.equal(code, 0, 'a second up starts nothing');
    assert.match(stdout, /already up/);
  });

  it('[K21] [R48] [R47] list: name, user, status, model, tasks, spend', async () => {
    const { agents } = await json<{ agents: AgentView[] }>('list');
    assert.deepEqual(
      agents.map(({ name }) => name),
      ['coder', 'deployer', 'planner', 'researcher'],
    );
    const text = await ok('list');
    assert.match(text, /deployer\s+agent-deployer\s+active/);
  });

  it('[K81] [K82] [R54] [R384] [R385] task create --wait shows the delegation and its result', async () => {
    const ran = await run('task', 'create', 'Why is the API slow?', '--wait');
    assert.equal(ran.code, 0, ran.stderr);
    assert.match(ran.stderr, /researcher/);
    assert.match(ran.stderr, /coder/);
    assert.match(ran.stdout, /rehearsal/i);
    const { tasks } = await json<{ tasks: TaskView[] }>('task', 'list', '--agent', 'planner');
    const task = tasks[0]!;
    assert.equal(task.status, 'completed');
    const failed = await json<{ tasks: TaskView[] }>('task', 'list', '--status', 'failed');
    assert.deepEqual(failed.tasks, []);
    assert.match(await ok('task', 'show', task.id), /Why is the API slow\?/);
    const graph = await ok('task', 'graph', task.id);
    assert.match(graph, /researcher[\s\S]*coder|coder[\s\S]*researcher/);
    assert.match(await ok('task', 'explain', task.id), /planner[\s\S]*(gave|asked|delegat)/i);
    const { replay } = await json<{ replay: { same: boolean } }>('task', 'replay', task.id);
    assert.equal(replay.same, true);
    const { artifacts } = await json<{ artifacts: { id: string; name: string }[] }>(
      'artifact',
      'list',
    );
    assert.deepEqual(artifacts.map(({ name }) => name).sort(), ['notes.md', 'sketch.md']);
    assert.match(await ok('artifact', 'get', artifacts[0]!.id), /\[rehearsal\]/);
  });

  it('[R53] [R40] pause, resume, stop; [K23] [R50] logs; agent create, update, remove', async () => {
    assert.match(await ok('pause', 'deployer'), /paused/);
    await fails(1, 'agent_paused', 'task', 'create', 'Deploy', '--agent', 'deployer');
    assert.match(await ok('resume', 'deployer'), /active|resumed/);
    assert.match(await ok('stop', 'deployer'), /stopped/);
    await ok('resume', 'deployer');
    await ok('task', 'create', 'Deploy nothing', '--agent', 'deployer', '--wait');
    await eventually('all of it in the log', async () => {
      const logs = await ok('logs', 'deployer');
      const kinds = ['agent.paused', 'run.started', 'model.call.ended', 'task.ended'];
      return kinds.every((kind) => logs.includes(kind)) ? true : undefined;
    });
    await ok('agent', 'create', 'scribe', '--description', 'Takes notes.', '--allow', 'file.read');
    await ok('agent', 'update', 'scribe', '--replicas', '3');
    const { agent } = await json<{ agent: AgentView }>('agent', 'show', 'scribe');
    assert.deepEqual([agent.replicas, agent.capabilities], [3, ['file.read']]);
    await ok('agent', 'remove', 'scribe');
    await fails(5, 'not_found', 'task', 'create', 'Take notes', '--agent', 'scribe');
  });

  it('[R49] run AGENT --task TASK assigns a waiting task to an agent', async () => {
    const slow = await createTask('slow 60000 ms', '--agent', 'coder');
    const task = await createTask('Be given away', '--agent', 'coder', '--after', slow.id);
    assert.equal(task.status, 'blocked');
    await ok('run', 'researcher', '--task', task.id);
    assert.equal((await show(task.id)).assigned_to, 'researcher');
    await ok('task', 'cancel', slow.id);
    assert.equal((await show(slow.id)).status, 'canceled');
    await fails(1, 'ended', 'run', 'researcher', '--task', slow.id);
    const retried = (await json<{ task: TaskView }>('task', 'retry', task.id)).task;
    assert.equal(retried.retry_of, task.id);
    assert.equal(retried.assigned_to, 'researcher');
  });

  it('a question: exit 4 with --no-wait, then answered from the list of questions', async () => {
    const ran = await run('task', 'create', 'Please ask a person first', '--no-wait', '--json');
    assert.equal(ran.code, 4, ran.stderr);
    const { task } = JSON.parse(ran.stdout) as { task: TaskView };
    // The question is listed a moment before its run has parked.
    await eventually('its run to park', async () =>
      (await show(task.id)).status === 'waiting' ? true : undefined,
    );
    const { waits } = await json<{ waits: WaitView[] }>('questions');
    const wait = waits.find(({ task_id }) => task_id === task.id)!;
    assert.match(await ok('questions'), /What matters most/);
    await ok('answer', wait.id, 'the price');
    const ended = await eventually('its end', async () => {
      const now = await show(task.id);
      return now.ended_at === null ? undefined : now;
    });
    assert.match(ended.result ?? '', /the price/);
    await fails(1, 'conflict', 'answer', wait.id, 'too late');
  });

  it('exit codes: limit 7, failed 1, not found 5, usage 2, configuration 78', async () => {
    const limited = await run(
      'task',
      'create',
      'loop for ever',
      '--agent',
      'coder',
      '--max-steps',
      '2',
      '--wait',
    );
    assert.equal(limited.code, 7, limited.stdout);
    assert.match(limited.stdout, /limit of 2 steps/);
    const broken = await run('task', 'create', 'loop for ever', '--agent', 'coder', '--wait');
    assert.equal(broken.code, 7, 'the breaker is a limit too');
    const poor = await run(
      'task',
      'create',
      'Spend',
      '--agent',
      'coder',
      '--max-tokens',
      '10',
      '--wait',
    );
    assert.equal(poor.code, 7);
    assert.match(poor.stdout, /has 10 tokens left of 10/);
    const unknown = `task_${'0'.repeat(26)}`;
    await fails(5, 'not_found', 'task', 'show', unknown);
    await fails(5, 'not_found', 'agent', 'show', 'nobody');
    await fails(2, 'bad_usage', 'task', 'create');
    await fails(2, 'bad_usage', 'task', 'frobnicate');
    await fails(2, 'bad_usage', 'task', 'show', 'not-an-id');
    const plain = await run('task', 'show', unknown);
    assert.match(plain.stderr, /^agentctl: task task_0+ not found \(not_found\)\n\S/);
    writeFileSync(join(base, 'bad.yaml'), 'agentd: { runs_live_mx: 3 }\n');
    const other = join(base, 'other');
    const bad = await run('up', '--state', other, '--config', join(base, 'bad.yaml'));
    assert.equal(bad.code, 78, bad.stdout + bad.stderr);
    assert.match(bad.stderr, /bad\.yaml:1.*runs_live_mx|runs_live_mx.*line 1/s);
    assert.match(bad.stderr, /runs_live_max/);
  });

  it('[K64] the record of a task has its agent, model, end, turns, cost, times and error', async () => {
    const failed = await json<{ tasks: TaskView[] }>('task', 'list', '--status', 'failed');
    const { id } = failed.tasks.find(({ error }) => /2 steps/.test(error?.message ?? ''))!;
    type Taken = { steps: number; tokens: number; cost_microusd: number };
    const { task, runs, took } = await json<{ task: TaskView; runs: RunView[]; took: Taken }>(
      ...(['task', 'show', id] as const),
    );
    assert.deepEqual(
      [task.assigned_to, task.status, task.error?.code],
      ['coder', 'failed', 'limit'],
    );
    assert.deepEqual(
      runs.map(({ agent, outcome, crashes }) => [agent, outcome, crashes]),
      [['coder', 'failed', 0]],
    );
    assert.ok(Date.parse(runs[0]!.ended_at!) > Date.parse(runs[0]!.created_at));
    type Usage = { rows: UsageRow[]; total: { cost_microusd: number } };
    const { rows, total } = await json<Usage>('model', 'usage', '--task', id);
    assert.deepEqual(
      rows.map(({ agent, model, calls }) => [agent, model, calls]),
      [['coder', 'rehearsal-large', 2]],
    );
    assert.deepEqual([took.steps, took.cost_microusd], [2, total.cost_microusd]);
    assert.ok(took.tokens > 0);
  });

  it('[R98] [R105] model list, test, usage and budget', async () => {
    assert.match(await ok('model', 'list'), /rehearsal-large/);
    assert.match(await ok('model', 'test', 'rehearsal-large'), /ok/);
    assert.match(await ok('model', 'usage'), /planner/);
    await ok('model', 'budget', 'agent', 'coder', '--tokens', '5');
    const poor = await run('task', 'create', 'Be poor', '--agent', 'coder', '--wait');
    assert.equal(poor.code, 7);
    assert.match(poor.stdout, /agentctl model budget agent coder --tokens/);
    await ok('model', 'budget', 'agent', 'coder', '--tokens', 'none');
    assert.equal((await run('task', 'create', 'Be rich', '--agent', 'coder', '--wait')).code, 0);
    assert.match(await ok('tool', 'list'), /task\.delegate/);
    assert.match(await ok('tool', 'show', 'task.finish'), /result/);
  });

  it('[R299] [R300] [R301] [R302] audit tail, task, agent, tool, verify', async () => {
    const { tasks } = await json<{ tasks: TaskView[] }>('task', 'list', '--agent', 'planner');
    const events = async (...words: string[]) =>
      (await ok('audit', ...words, '--json'))
        .trim()
        .split('\n')
        .flatMap((line) => {
          const value = JSON.parse(line) as AuditEvent | { events: AuditEvent[] };
          return 'events' in value ? value.events : [value];
        });
    const task = await events('task', tasks.at(-1)!.id);
    assert.equal(task[0]?.event, 'task.created');
    assert.ok((await events('agent', 'deployer')).every(({ agent }) => agent === 'deployer'));
    assert.ok((await events('tool', 'artifact.put')).every(({ tool }) => tool === 'artifact.put'));
    assert.equal((await events('tail', '-n', '5')).length, 5);
    const verified = join(stateDir, 'audit', 'verified.json');
    rmSync(verified, { force: true });
    await ok('doctor');
    assert.ok(existsSync(verified), 'the next doctor verifies only what came since');
    assert.match(await ok('audit', 'verify'), /The log is whole/);
  });

  it('[K97] halt, unhalt, down; afterwards it is not reachable', async () => {
    await ok('halt', '--reason', 'lunch');
    const { status } = await json<{ status: Status }>('status');
    assert.deepEqual([status.halted, status.halt_reason], [true, 'lunch']);
    await fails(1, 'halted', 'task', 'create', 'Work through lunch');
    await ok('unhalt');
    await ok('down');
    assert.ok(!existsSync(join(stateDir, 'runtime.json')));
    await fails(6, 'runtime_down', 'task', 'list');
    assert.match(await ok('audit', 'verify'), /The log is whole/, 'verifying needs no runtime');
    await ok('down');
  });
});
