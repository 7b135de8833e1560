// The interfaces of a runtime on its host: sockets that only their owner can use, logs and metrics
// for tools, one database per daemon, and a runner that has nothing but its sockets.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { DAEMONS, type DaemonName } from '../../src/wire/daemons.ts';
import {
  DAEMONS_WITH_STORE,
  eventually,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  runnerPids,
  scriptedModels,
  TEAM,
} from '../support/scripted-world.ts';

const READS = '{ tools: { allow: [file.read] } }';

describe('runtime surface', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      mode: 'split',
      agents: { ...TEAM, reader: manifestOf('reader', READS) },
      config: JSON.stringify({ modeld: scriptedModels(model.url), toold: { test_tools: true } }),
    });
    model.on('Do it well', says(call('test.echo', { text: 'x' })), finishes('well'));
    model.on('Do it badly', finishes('badly', { status: 'failed' }));
    await doTask(runtime, 'Do it well', { agent: 'coder' });
    await doTask(runtime, 'Do it badly', { agent: 'coder' });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });

  const curl = (daemon: DaemonName, path: string, ...more: string[]): string =>
    execFileSync('curl', [
      '-sS',
      '--unix-socket',
      socketPathFor(runtime.runtimeDir, daemon, 'operator'),
      ...more,
      `http://agentd${path}`,
    ]).toString();
  const authorized = () => ['-H', `Authorization: Bearer ${runtime.operatorKey}`];

  it('[R169] [R242] [R244] [R426] curl can call every daemon over its Unix socket', () => {
    const status = JSON.parse(curl('agentd', '/v1/status', ...authorized())) as { mode: string };
    assert.equal(status.mode, 'split');
    for (const [daemon, path] of [
      ['toold', '/v1/tools'],
      ['modeld', '/v1/models'],
      ['approvald', '/v1/approvals'],
      ['egressd', '/v1/egress'],
      ['auditd-ai', '/v1/audit/events?limit=1'],
    ] as const)
      assert.ok(!('error' in (JSON.parse(curl(daemon, path, ...authorized())) as object)), path);
  });

  it('[R246] only the owner can use a socket, and an operator also needs the key', () => {
    const error = JSON.parse(curl('agentd', '/v1/status')) as { error: { code: string } };
    assert.equal(error.error.code, 'unauthenticated');
    const open = (path: string) => (statSync(path).mode & 0o077).toString(8);
    assert.equal(open(runtime.runtimeDir), '0');
    assert.equal(open(runtime.stateDir), '0');
    for (const daemon of DAEMONS) assert.equal(open(join(runtime.runtimeDir, daemon)), '0', daemon);
    assert.equal(statSync(join(runtime.stateDir, 'operator.key')).mode & 0o777, 0o600);
  });

  const scrape = (daemon: DaemonName) => {
    const lines = curl(daemon, '/metrics', ...authorized()).split('\n');
    return (metric: string, label = ''): number =>
      lines
        .filter((line) => line.startsWith(`agentd_${metric}{`) && line.includes(label))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };

  it('[R359] [R360] [R361] metrics count tasks, calls, tokens and cost', async () => {
    const value = (daemon: DaemonName, metric: string, label?: string): number =>
      scrape(daemon)(`${metric}_total`, label);
    assert.equal(value('agentd', 'tasks_started'), 2);
    assert.equal(value('agentd', 'tasks_ended', 'status="completed"'), 1);
    assert.equal(value('agentd', 'tasks_ended', 'status="failed"'), 1);
    // agentd reports the end of a task before toold has counted the call that ended it.
    await eventually('three calls', async () => value('toold', 'tool_calls') >= 3 || undefined);
    assert.equal(value('toold', 'tool_calls'), 3);
    assert.equal(value('modeld', 'model_calls'), 3);
    assert.equal(value('modeld', 'model_tokens'), 3 * 120);
    assert.equal(value('modeld', 'model_cost_microusd'), 3 * 300);
  });

  it('[R167] every daemon logs one JSON document per line', async () => {
    model.on('Die and be logged', { hang: true });
    const task = await create(runtime, 'Die and be logged', { agent: 'coder' });
    await eventually('it to work', async () => model.scenesFor('Die and be logged')[0]);
    model.on('Die and be logged', finishes('logged'));
    const [pid] = await runnerPids(runtime.stateDir, 1);
    process.kill(pid!, 'SIGKILL');
    await taskEnded(runtime, task.id);
    const logs = join(runtime.stateDir, 'logs');
    const names = readdirSync(logs).sort();
    for (const daemon of DAEMONS) assert.ok(names.includes(`${daemon}.log`), daemon);
    for (const name of names) {
      const lines = readFileSync(join(logs, name), 'utf8').split('\n').filter(Boolean);
      for (const line of lines) {
        const { ts, level, message } = JSON.parse(line) as Record<string, string>;
        assert.ok(ts !== undefined && level !== undefined && message !== undefined, line);
      }
    }
    await eventually(
      'the log line of the runner’s exit',
      async () => /runner exited/.test(readFileSync(join(logs, 'agentd.log'), 'utf8')) || undefined,
    );
  });

  it('[R356] [R357] [R369] metrics have latencies, errors and denials', async () => {
    const notFound = () => scrape('agentd')('requests_total', 'outcome="not_found"');
    const before = notFound();
    curl('agentd', `/v1/tasks/task_${'0'.repeat(26)}`, ...authorized());
    assert.equal(notFound(), before + 1);
    for (const daemon of DAEMONS) {
      scrape(daemon);
      const value = scrape(daemon);
      assert.ok(value('request_ms_count') > 0 && value('request_ms_sum') >= 0, daemon);
      assert.equal(value('request_ms_bucket', 'le="+Inf"'), value('request_ms_count'));
      assert.ok(value('process_rss_bytes') > value('process_heap_used_bytes'), daemon);
      assert.ok(value('process_heap_used_bytes') > 0, daemon);
    }
    const denied = () => scrape('toold')('tool_calls_total', 'status="denied"');
    assert.equal(denied(), 0);
    model.on('Overreach', says(call('file.read', { path: '/etc/shadow' })), finishes('no'));
    await doTask(runtime, 'Overreach', { agent: 'reader' });
    assert.equal(denied(), 1);
  });

  it('[R303] [R304] [R306] [R307] [R308] [R464] each daemon with state has one SQLite file, with the tables of the source document', () => {
    const files = readdirSync(runtime.stateDir).filter((name) => name.endsWith('.sqlite'));
    assert.deepEqual(files.sort(), DAEMONS_WITH_STORE.map((name) => `${name}.sqlite`).sort());
    const columns = (daemon: DaemonName, table: string): string[] => {
      const file = join(runtime.stateDir, `${daemon}.sqlite`);
      const db = new DatabaseSync(file, { readOnly: true });
      const rows = db.prepare(`SELECT name FROM pragma_table_info('${table}')`).all();
      db.close();
      return rows.map(({ name }) => String(name));
    };
    const has = (have: string[], wanted: string[]) =>
      assert.deepEqual(
        wanted.filter((name) => !have.includes(name)),
        [],
      );
    has(columns('agentd', 'agents'), [
      'name',
      'linux_user',
      'manifest_hash',
      'status',
      'created_ms',
      'updated_ms',
    ]);
    has(columns('agentd', 'tasks'), [
      'id',
      'parent_task_id',
      'created_by',
      'assigned_to',
      'status',
      'goal',
      'result_ref',
      'created_ms',
      'updated_ms',
    ]);
    has(columns('agentd', 'artifacts'), [
      'id',
      'object_hash',
      'mime_type',
      'size_bytes',
      'created_by',
      'task_id',
      'created_ms',
    ]);
    has(columns('approvald', 'approvals'), [
      'id',
      'task_id',
      'agent',
      'action',
      'status',
      'requested_ms',
      'decided_ms',
      'decided_by',
    ]);
    has(columns('toold', 'calls'), [
      'call_id',
      'run_id',
      'tool',
      'arguments_hash',
      'result',
      'status',
      'created_ms',
      'ended_ms',
    ]);
    has(columns('toold', 'runs'), ['run_id', 'task_id', 'agent']);
  });

  it('[R88] a runner has no environment, no inherited descriptors, and no tool except through toold', async () => {
    model.on('Look around', { hang: true });
    const task = await create(runtime, 'Look around', { agent: 'coder' });
    await eventually('it to work', async () => model.scenesFor('Look around')[0]);
    const [pid] = await runnerPids(runtime.stateDir, 1);
    assert.equal(readFileSync(`/proc/${pid}/environ`, 'utf8'), '');
    const targets = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
      } catch {
        return []; // Closed meanwhile.
      }
    });
    assert.deepEqual(
      targets.filter((path) => path.startsWith(runtime.stateDir)),
      [],
      'it has no file of the state open',
    );
    await runtime.agentd.cancelTask({ params: { id: task.id }, body: {} });
    await taskEnded(runtime, task.id);
  });
});
