// The audit log of a runtime in which every kind of event has occurred, attempts separate from
// outcomes. Changed, removed, reordered or truncated events are detected; proofs can be verified
// independently.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { type AuditEvent, EVENT_KINDS } from '../../src/wire/events.ts';
import type { CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { isProven } from '../support/independent-verifier.ts';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
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
  openWait,
  reaches,
  refusedWith,
  runnerPids,
  scriptedModels,
  TEAM,
} from '../support/scripted-world.ts';

/**
 * The events that §6.6 requires, and their names here. Memory, approvals, sandboxes and
 * network come later.
 */
const WANTED: Record<string, AuditEvent['event']> = {
  'task creation': 'task.created',
  'task completion': 'task.ended',
  'agent start': 'run.started',
  'agent stop': 'agent.stopped',
  'agent pause': 'agent.paused',
  'agent crash': 'run.crashed',
  'agent restart': 'run.restarted',
  'agent-to-agent messages': 'message.sent',
  'tool calls': 'tool.call.attempted',
  'tool results': 'tool.call.ended',
  'model calls': 'model.call.attempted',
  'token usage': 'model.call.ended',
};

const asToold = ({ runtimeDir }: TestRuntime) =>
  makeClient(
    sandboxdRoutes,
    socketLink({ socketPath: socketPathFor(runtimeDir, 'sandboxd', 'peer-toold') }),
  );
/** A command in a box with this path. */
const lookingAt = (path: string) => ({
  run_id: deriveId<RunId>('run', path),
  fence: 1,
  agent: 'coder',
  level: 'L2' as const,
  task_id: deriveId<TaskId>('task', path),
  root_task_id: deriveId<TaskId>('task', path),
  call_id: deriveId<CallId>('call', path),
  argv: ['/usr/bin/ls', path],
  collect: true,
  rules: { read: [path], write: [], deny: [] },
  network: { egress_socket: null },
});
/** Kinds of people, keys, programs, memories, networks, mail, teams and old data: tested there. */
const ELSEWHERE = new RegExp(
  '^(key\\.|memory\\.|alias\\.set|provider\\.removed|sandbox\\.command|workspace\\.disarmed|' +
    'run\\.marked|policy\\.(refused|denied)|approval\\.|permit\\.|network\\.|audit\\.archived|' +
    'task\\.(kept|released|changes\\..*|applied|discarded|undone)|data\\.pruned|' +
    'runtime\\.restored|restore\\.lifted|mail\\.|task\\.updated|artifact\\.shared|thread\\.limited|' +
    '(persona|skill)\\.changed)',
);

describe('the audit log', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  const elsewhere = freshDir();
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: { ...TEAM, extra: manifestOf('extra') },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        toold: { test_tools: true },
      }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
    rmSync(elsewhere, { recursive: true, force: true });
  });

  const audit = (...words: string[]) =>
    agentctl(['audit', ...words], { state: runtime.stateDir, env: runtime.env });

  it('every kind of event is caused', async () => {
    const { agentd, modeld } = runtime;
    model.on(
      'Do a bit of everything',
      says(call('task.delegate', { agent: 'coder', goal: 'Lend a hand', wait: false })),
      says(call('message.send', { to: 'coder', text: 'hurry' })),
      says(call('artifact.put', { name: 'a.txt', text: 'a' })),
      ({ results }) => says(call('artifact.get', { id: JSON.parse(results[2]!).id as string })),
      says(call('test.count_effect', { key: 'no such key!' })),
      says(call('person.ask', { question: 'Go on?' })),
      finishes('done'),
    );
    model.on('Lend a hand', says(call('timer.wait', { after_s: 0.3 })), finishes('lent'));
    const task = await create(runtime, 'Do a bit of everything', { agent: 'planner' });
    const wait = await openWait(runtime, task.id, 'question');
    await reaches(runtime, task.id, 'waiting');
    await agentd.answerWait({ params: { id: wait.id }, body: { answer: 'yes' } });
    await reaches(runtime, task.id, 'completed');

    model.on('Crash once', { hang: true });
    const crashing = await create(runtime, 'Crash once', { agent: 'coder' });
    await eventually('it to work', async () => model.scenesFor('Crash once')[0]);
    model.on('Crash once', finishes('crashed and back'));
    const [pid] = await runnerPids(runtime.stateDir, 1);
    process.kill(pid!, 'SIGKILL');
    await reaches(runtime, crashing.id, 'completed');

    model.on('Turn in circles', says(call('test.echo', { text: 'o' })));
    assert.equal((await doTask(runtime, 'Turn in circles')).error?.code, 'breaker');

    model.on('Hold the queue', { hang: true });
    const holding = await create(runtime, 'Hold the queue', { agent: 'coder' });
    const passed = await create(runtime, 'Pass on', { agent: 'coder', after: [holding.id] });
    await agentd.assignTask({ params: { id: passed.id }, body: { agent: 'researcher' } });
    await agentd.cancelTask({ params: { id: holding.id }, body: {} });

    await agentd.pauseAgent({ params: { name: 'extra' } });
    await agentd.resumeAgent({ params: { name: 'extra' } });
    await agentd.stopAgent({ params: { name: 'extra' } });
    const manifest_yaml = manifestOf('extra', '{ replicas: 2 }');
    await agentd.putAgent({ params: { name: 'extra' }, body: { manifest_yaml } });
    await agentd.removeAgent({ params: { name: 'extra' } });

    model.on('Be halted', { hang: true });
    const halted = await create(runtime, 'Be halted', { agent: 'coder' });
    await eventually('it to work', async () => model.scenesFor('Be halted')[0]);
    await agentd.halt({ body: { reason: 'a test' } });
    model.on('Be halted', finishes('went on'));
    await agentd.unhalt({});
    await reaches(runtime, halted.id, 'completed');

    await modeld.setBudget({ body: { subject: 'site', tokens_limit: 1 } });
    const poor = await doTask(runtime, 'Cost something', { agent: 'coder' });
    assert.equal(poor.error?.code, 'budget');
    await modeld.setBudget({ body: { subject: 'site', tokens_limit: null } });
    const dialect = 'openai' as const;
    await modeld.addProvider({ params: { name: 'other' }, body: { dialect, base_url: model.url } });
    const { calls } = await modeld.listCalls({ query: { task_id: task.id } });
    await modeld.forgetPart({ params: { hash: calls[0]!.context[1]! } });
    await assert.rejects(asToold(runtime).runOnce({ body: lookingAt('/root') }), {
      code: 'denied',
    });
    const tool = { name: 'test.count_effect' };
    await runtime.toold.suspendTool({ params: tool, body: { reason: 'a test' } });
    await runtime.toold.resumeTool({ params: tool });
    await runtime.audit.rotateKey({});
    await agentctl(['backup', join(elsewhere, 'backups')], {
      state: runtime.stateDir,
      env: runtime.env,
    });
    await runtime.stop();
    runtime = await runtime.restart();
  });

  it('[R126-R133] [R139-R141] [R145] [R146] [R46] [R423] [K63] every event kind has occurred, and the log has all that §6.6 requires', async () => {
    const missing = async () => {
      const kinds = new Set((await allEvents(runtime)).map(({ event }) => event));
      return [
        ...EVENT_KINDS.filter((kind) => !kinds.has(kind) && !ELSEWHERE.test(kind)),
        ...Object.entries(WANTED).flatMap(([what, kind]) => (kinds.has(kind) ? [] : [what])),
      ];
    };
    await eventually('all kinds', async () =>
      (await missing()).length === 0 ? true : undefined,
    ).catch(async () => assert.deepEqual(await missing(), [], 'kinds that are never written'));
    await eventually('journals and log to agree', () => assertReconciled(runtime));
  });

  it('[R125] [R309] [R9] [R415] an event has time, principal, task, action, and the rule that allowed it', async () => {
    const { events } = await runtime.audit.tool({
      params: { tool: 'artifact.put' },
      query: { limit: 100 },
    });
    const attempted = events.find(({ event }) => event === 'tool.call.attempted')!;
    const { ts, agent, task_id, tool, allowed, policy, principal } = attempted;
    assert.match(ts, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    assert.deepEqual(
      [agent, tool, allowed, principal],
      ['planner', 'artifact.put', true, 'agent:planner'],
    );
    assert.match(String(policy), /^base:basic-tools$/);
    assert.match(
      String(attempted.data?.checks),
      /^caller task tool scope sandbox:L0 approval:none$/,
    );
    assert.match(String(task_id), /^task_/);
    const all = await allEvents(runtime);
    const denied = all.find(({ event }) => event === 'tool.call.denied')!;
    assert.equal(denied.allowed, false);
    assert.ok(
      all.find(({ event }) => event === 'artifact.stored')?.artifact?.startsWith('artifact_'),
    );
    for (const logged of all.filter(({ event }) => event.startsWith('tool.call.')))
      assert.ok(
        logged.task_id !== undefined && logged.agent !== undefined && logged.call_id !== undefined,
      );
    const text = JSON.stringify(all);
    assert.ok(!text.includes('Do a bit of everything'), 'events carry no content');
  });

  it('[R139] [R140] [R141] [R415] an attempt is logged before its effect, each as a separate event', async () => {
    const all = await allEvents(runtime);
    const seqOf = new Map(all.map((logged) => [logged.id, logged.seq]));
    const ended = all.filter(({ event }) => /^(tool|model)\.call\.ended$/.test(event));
    assert.ok(ended.length > 10);
    for (const { id, seq, call_id } of ended) {
      const attempt =
        seqOf.get(id.replace('.ended', '.attempted')) ?? seqOf.get(`${call_id}.attempted.1`);
      assert.ok(attempt !== undefined && attempt < seq, `${id} has its attempt before it`);
    }
    const usage = all.findLast(
      ({ event, status }) => event === 'model.call.ended' && status === 'completed',
    );
    assert.equal(usage?.data?.input_tokens, 100);
    assert.equal(usage?.data?.output_tokens, 20);
    assert.equal(usage?.data?.cost_microusd, 300);
  });

  it('[R299] [R300] [R301] [R302] can be read by page, by task, by agent and by tool', async () => {
    const all = await allEvents(runtime);
    const newest = await runtime.audit.events({ query: { limit: 3, order: 'desc' } });
    assert.deepEqual(
      newest.events.map(({ seq }) => seq),
      all
        .slice(-3)
        .map(({ seq }) => seq)
        .reverse(),
    );
    const taskId = all.find(({ event }) => event === 'task.created')!.task_id!;
    const of = (list: { events: AuditEvent[] }) => list.events.map(({ id }) => id);
    const query = { limit: 1_000 };
    assert.deepEqual(
      of(await runtime.audit.task({ params: { task_id: taskId }, query })),
      all.filter(({ task_id }) => task_id === taskId).map(({ id }) => id),
    );
    assert.deepEqual(
      of(await runtime.audit.agent({ params: { agent: 'coder' }, query })),
      all.filter(({ agent }) => agent === 'coder').map(({ id }) => id),
    );
    assert.deepEqual(
      of(await runtime.audit.tool({ params: { tool: 'test.echo' }, query })),
      all.filter(({ tool }) => tool === 'test.echo').map(({ id }) => id),
    );
  });

  it('[R436] an independent verifier accepts valid proofs only, and all verify after a key rotation', async () => {
    const all = await allEvents(runtime);
    for (const { id } of [all[0]!, all[Math.floor(all.length / 2)]!, all.at(-1)!]) {
      const ran = await audit('prove', id, '--json');
      assert.equal(ran.code, 0, ran.stderr);
      const { proof } = documentOf<{
        proof: Parameters<typeof isProven>[0] & { vkey: string };
      }>(ran);
      assert.ok(isProven(proof, proof.vkey), id);
      assert.equal((JSON.parse(proof.event) as AuditEvent).id, id);
      const lie = { ...proof, event: proof.event.replace(/"ts":"2/, '"ts":"1') };
      assert.notEqual(lie.event, proof.event);
      assert.ok(!isProven(lie, proof.vkey));
      assert.ok(!isProven({ ...proof, index: proof.index ^ 1 }, proof.vkey));
    }
    await refusedWith('not_found', runtime.audit.prove({ params: { id: 'nothing.of.the.kind' } }));
    const ran = await audit('verify', '--json');
    const { verify } = documentOf<{ verify: { ok: boolean; size: number } }>(ran);
    assert.equal(verify.ok, true, ran.stdout);
    assert.ok(verify.size >= all.length);
  });

  type Report = {
    verify: {
      ok: boolean;
      size: number;
      problems: { seq: number | null }[];
    };
  };
  const verify = async (dir: string, ...more: string[]) => {
    const ran = await agentctl(['audit', 'verify', dir, '--json', ...more], { env: runtime.env });
    return { code: ran.code, ...documentOf<Report>(ran).verify };
  };

  it('[R436] [R423] [C172] verify detects a changed copy and reports the position', async () => {
    const checkpoint = join(elsewhere, 'checkpoint');
    writeFileSync(checkpoint, (await audit('checkpoint')).stdout);
    const [copy, exported] = [join(elsewhere, 'copy'), join(elsewhere, 'exported')];
    cpSync(join(runtime.stateDir, 'audit'), copy, { recursive: true });
    assert.equal((await audit('export', exported)).code, 0);
    for (const dir of [copy, exported])
      assert.equal((await verify(dir, '--from', checkpoint)).code, 0);
    const lines = readFileSync(join(copy, 'audit.jsonl'), 'utf8').split('\n').slice(0, -1);
    const at = Math.floor(lines.length / 2);
    const attacks: Record<string, string[]> = {
      changed: lines.with(at, lines[at]!.replace('"ts":"2', '"ts":"3')),
      removed: lines.toSpliced(at, 1),
      reordered: lines.with(at, lines[at + 1]!).with(at + 1, lines[at]!),
      truncated: lines.slice(0, at),
    };
    for (const [name, left] of Object.entries(attacks)) {
      const text = left.map((line) => `${line}\n`).join('');
      for (const from of [copy, exported]) {
        const dir = join(elsewhere, `${name}-${from === copy ? 'copy' : 'export'}`);
        cpSync(from, dir, { recursive: true });
        writeFileSync(join(dir, 'audit.jsonl'), text);
        const { code, ok, problems } = await verify(dir, '--from', checkpoint);
        const what = `${dir}: ${JSON.stringify(problems)}`;
        assert.deepEqual([code, ok], [1, false], what);
        assert.ok(
          problems.some(({ seq }) => seq === at || seq === at + 1),
          what,
        );
      }
    }
  });

  it('[C172] a tail removed together with its checkpoints is detected with a checkpoint stored elsewhere', async () => {
    const dir = join(elsewhere, 'forgotten');
    cpSync(join(elsewhere, 'copy'), dir, { recursive: true });
    const lines = readFileSync(join(dir, 'audit.jsonl'), 'utf8').split('\n').slice(0, -1);
    const notes = readFileSync(join(dir, 'checkpoints.log'), 'utf8');
    const sizes = [...notes.matchAll(/^agentd\.local\/audit\n(\d+)\n/gm)];
    const early = sizes.find(([, size]) => Number(size) > 0 && Number(size) < lines.length)!;
    const next = sizes[sizes.indexOf(early) + 1]!;
    writeFileSync(join(dir, 'checkpoints.log'), notes.slice(0, next.index));
    writeFileSync(join(dir, 'checkpoint'), `${notes.slice(early.index, next.index).trimEnd()}\n`);
    writeFileSync(
      join(dir, 'audit.jsonl'),
      lines
        .slice(0, Number(early[1]))
        .map((line) => `${line}\n`)
        .join(''),
    );
    rmSync(join(dir, 'tree'), { recursive: true });
    const alone = await verify(dir);
    assert.equal(alone.code, 0, `without it, it looks complete: ${JSON.stringify(alone)}`);
    const { code, problems } = await verify(dir, '--from', join(elsewhere, 'checkpoint'));
    assert.equal(code, 1);
    assert.equal(problems[0]?.seq, Number(early[1]));
  });
});
