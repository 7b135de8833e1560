// A team as a person oversees it: states, costs and events, homes, mail and errors. And where the
// operator wants it so, any failed task halts all of it.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { AgentView, BoardView, DigestView, StatusView } from '../../src/wire/agentd.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import type { MailSummary } from '../../src/wire/maild.ts';
import {
  eventually,
  freshDir,
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
  manifestOf,
  reaches,
  refusedWith,
  scriptedModels,
  TEAM,
} from '../support/scripted-world.ts';

const KEEPER = '{ home: kept, tools: { allow: [file.read, file.write_workspace] } }';
const preset = (name: string, tasks: string) => `apiVersion: agentd/v1
kind: Preset
metadata: { name: ${name}, description: P. }
agents: [{ name: coder }, { name: researcher }]
tasks:
${tasks}`;
const COUNT = `  - { id: count, agent: coder, goal: 'Count the herons' }\n`;
const DRAIN = `  - { id: drain, agent: researcher, goal: 'Drain the pond', on_failure: stop }\n`;

type Usage = { calls: number; cost_microusd: number };

describe('a team and the person who oversees it', () => {
  const base = freshDir();
  let world: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    world = await startRuntime({
      base,
      agents: { ...TEAM, keeper: manifestOf('keeper', KEEPER) },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        agentd: { on_failure: 'halt' },
        toold: { test_tools: true },
      }),
    });
    model.on('Count the herons', finishes('Seven.'));
    model.on('Drain the pond', finishes('There is no drain.', { status: 'failed' }));
  });
  after(async () => {
    await world.remove();
    await model.close();
    rmSync(base, { recursive: true, force: true });
  });

  const run = (...words: string[]) => agentctl(words, { state: world.stateDir });
  const done = async (...words: string[]): Promise<string> => {
    const ran = await run(...words);
    assert.equal(ran.code, 0, `${words.join(' ')}: ${ran.stdout}${ran.stderr}`);
    return ran.stdout;
  };
  const json = async <T>(...words: string[]): Promise<T> => {
    const ran = await run(...words, '--json');
    assert.equal(ran.code, 0, `${words.join(' ')}: ${ran.stderr}`);
    return documentOf<T>(ran);
  };
  const load = (name: string, tasks: string) => {
    const file = join(base, `${name}.yaml`);
    writeFileSync(file, preset(name, tasks), { mode: 0o644 });
    return run('preset', 'load', file);
  };
  const statusNow = async () => (await json<{ status: StatusView }>('status')).status;
  const digestNow = async () => (await json<{ digest: DigestView }>('digest')).digest;
  const eventsNow = async (lines: number): Promise<AuditEvent[]> =>
    (await done('audit', 'tail', '-n', `${lines}`, '--json'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as AuditEvent);
  const mailOf = (person: string, subject: RegExp) =>
    eventually(`mail about ${subject}`, async () =>
      (await json<{ mails: MailSummary[] }>('mail', person)).mails.find((mail) =>
        subject.test(mail.subject),
      ),
    );

  it('[K95] sees whether all, some or none of it is done, what each agent cost, and every event', async () => {
    const whole = await load('herons', COUNT);
    assert.equal(whole.code, 0, whole.stderr);
    assert.match(whole.stdout, /^1 of 1 completed in .*, [\d,]+ tokens, \$0\.\d+$/m);
    const part = await load('pond', COUNT + DRAIN);
    assert.equal(part.code, 1, 'a part of it failed');
    assert.match(part.stdout, /^1 of 2 completed in /m);

    model.on('Hold the door', { hang: true });
    const open = await create(world, 'Hold the door', { agent: 'planner' });
    await reaches(world, open.id, 'working');
    const { board } = await json<{ board: BoardView }>('board');
    const column = (name: string) => board.columns.find((one) => one.name === name)!;
    assert.deepEqual(
      column('working').tasks.map(({ id }) => id),
      [open.id],
    );
    assert.deepEqual(
      column('ended')
        .tasks.map(({ status }) => status)
        .sort(),
      ['completed', 'completed', 'failed'],
    );
    assert.match(await done('board'), /WORKING 1[\s\S]*✓ Count/);
    const { tasks } = await statusNow();
    assert.deepEqual([tasks.completed, tasks.failed, tasks.working], [2, 1, 1]);
    await done('task', 'cancel', open.id);
    assert.equal((await statusNow()).tasks.working ?? 0, 0);

    const { total, groups } = await eventually('every call to be counted', async () => {
      const words = ['model', 'usage', '--by', 'agent'] as const;
      const usage = await json<{ total: Usage; groups: (Usage & { name: string })[] }>(...words);
      return usage.total.calls >= 3 ? usage : undefined;
    });
    const calls = new Map(groups.map((group) => [group.name, group.calls]));
    assert.deepEqual([calls.get('coder'), calls.get('researcher')], [2, 1]);
    const sum = groups.reduce((cost, group) => cost + group.cost_microusd, 0);
    assert.deepEqual([sum > 0, sum], [true, total.cost_microusd]);
    type Spender = AgentView & { spent_today_microusd: number };
    const coder = (await json<{ agents: Spender[] }>('list')).agents.find(
      ({ name }) => name === 'coder',
    );
    assert.equal(coder!.tasks.ended, 2);
    assert.equal(
      coder!.spent_today_microusd,
      groups.find(({ name }) => name === 'coder')!.cost_microusd,
    );

    const events = await eventsNow(500);
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, i) => events[0]!.seq + i),
      'one order for all of them, without a gap',
    );
    const sources = new Set(events.map(({ source }) => source));
    for (const daemon of ['agentd', 'modeld', 'toold']) assert.ok(sources.has(daemon), daemon);
    assert.equal((await eventsNow(3)).length, 3);
  });

  it('[K122] reads homes, what agents write to each other, mail, logs and errors on this host', async () => {
    const path = '/home/keeper/NOTES.md';
    model.on('Note it', says(call('file.write', { path, text: 'Two loaves.' })), finishes('ok'));
    const noted = await create(world, 'Note it', { agent: 'keeper' });
    assert.equal((await taskEnded(world, noted.id)).status, 'completed');
    const { agent } = await json<{ agent: AgentView }>('agent', 'show', 'keeper');
    const home = join(world.stateDir, 'homes', agent.home_id!, 'keeper');
    assert.equal(readFileSync(join(home, 'NOTES.md'), 'utf8'), 'Two loaves.');

    model.on(
      'Ask around',
      says(call('task.delegate', { agent: 'coder', goal: 'Count the herons again' })),
      ({ results }) => finishes(results.join()),
    );
    const asked = await create(world, 'Ask around', { agent: 'planner' });
    await taskEnded(world, asked.id);
    const query = { context_id: asked.context_id };
    const { messages } = await world.agentd.listMessages({ query });
    const letters = messages.map(({ type, from, to }) => `${type} ${from} ${to}`);
    assert.ok(letters.includes('TaskRequest agent:planner agent:coder'), letters.join());
    assert.ok(letters.includes('TaskResult agent:coder agent:planner'), letters.join());
    await mailOf('tester', /^completed: Ask around/);
    const [file] = readdirSync(join(world.stateDir, 'mail', 'tester', 'new'));
    assert.match(
      readFileSync(join(world.stateDir, 'mail', 'tester', 'new', file!), 'utf8'),
      /^Subject: /m,
      'a file that any mail program reads',
    );

    await eventually('its log', async () =>
      (await done('logs', 'keeper')).includes('task.ended') ? true : undefined,
    );
    const { failed } = await digestNow();
    assert.deepEqual(
      failed.tasks.map(({ reason }) => reason),
      ['There is no drain.'],
    );
    assert.match(await done('task', 'show', failed.tasks[0]!.id), /There is no drain\./);
  });

  it('[K89] a failed task stops every agent, starts nothing more, and people are told', async () => {
    let isLifted = false;
    model.on('Stand by', () => (isLifted ? finishes('Stood by.') : { hang: true }));
    model.on('Break the ice', finishes('It is too thick.', { status: 'failed' }));
    const others = await Promise.all(
      ['planner', 'researcher'].map((agent) => create(world, 'Stand by', { agent })),
    );
    await eventually('both at work', async () =>
      model.scenesFor('Stand by').length === 2 ? true : undefined,
    );
    const failed = await run('task', 'create', 'Break the ice', '--agent', 'coder', '--wait');
    assert.equal(failed.code, 1, failed.stderr);
    const status = await eventually('every run to be stopped', async () => {
      const now = await statusNow();
      return now.halted && now.runs.live === 0 ? now : undefined;
    });
    assert.match(status.halt_reason!, /^task_\w+ failed, and its failure policy is halt$/);
    await eventually('no process of an agent', async () =>
      readdirSync(join(world.stateDir, 'runners')).length === 0 ? true : undefined,
    );
    await refusedWith('halted', create(world, 'Go on anyway', { agent: 'coder' }));
    assert.equal(model.scenesFor('Stand by').length, 2);

    const [id] = status.halt_reason!.split(' ');
    const { task } = await world.agentd.getTask({ params: { id: id as never } });
    assert.equal(task.goal, 'Break the ice');
    await mailOf(task.created_by.replace('person:', ''), /^failed: Break the ice/);
    const told = await eventually('the halt in the digest', async () =>
      (await digestNow()).incidents.find(({ event }) => event === 'halt.set'),
    );
    assert.match(told.text, /the runtime was halted: task_\w+ failed/);

    isLifted = true;
    await done('unhalt');
    for (const other of others)
      assert.equal((await taskEnded(world, other.id)).result, 'Stood by.');
  });

  it('[K90] the log says when the runtime started, how tasks ended, what halted it, and when all had ended', async () => {
    const events = await eventually('the end of each task', async () => {
      const found = await eventsNow(1_000);
      const tasksOf = (kind: AuditEvent['event']) =>
        found.filter(({ event }) => event === kind).map(({ task_id }) => task_id);
      const ended = new Set(tasksOf('task.ended'));
      return tasksOf('task.created').every((id) => ended.has(id)) ? found : undefined;
    });
    const of = (kind: AuditEvent['event']) => events.filter(({ event }) => event === kind);
    for (const { ts, source, event } of events)
      assert.ok(!Number.isNaN(Date.parse(ts)) && source !== '', event);
    assert.deepEqual(
      of('runtime.started').map(({ source, principal }) => [source, principal]),
      [['agentd', 'service:agentd']],
    );
    const ended = of('task.ended');
    const count = (status: string) => ended.filter((event) => event.status === status).length;
    const { tasks } = await statusNow();
    assert.deepEqual(
      [count('completed'), count('failed'), count('canceled')],
      [tasks.completed, tasks.failed, tasks.canceled],
    );
    assert.equal(count('failed'), 2);
    assert.ok(ended.every(({ agent, task_id, data }) => agent && task_id && data));
    const [halt, ...more] = of('halt.set');
    assert.deepEqual(more, [], 'recorded once');
    const cause = ended.find(({ task_id }) => String(halt!.data?.reason).startsWith(task_id!));
    assert.equal(cause?.status, 'failed');
    const [lifted] = of('halt.lifted');
    assert.ok(halt!.seq < lifted!.seq);
    // "Finished" is the last end of a task: after it none is open, as status says too.
    assert.ok(lifted!.seq < ended.at(-1)!.seq);
    const open = Object.entries(tasks).filter(
      ([status, n]) => n > 0 && !['completed', 'failed', 'canceled', 'rejected'].includes(status),
    );
    assert.deepEqual(open, []);
  });
});
