// Agents remember across tasks with their tools: what one task remembers, another recalls, within
// the scopes of their manifests; what they recall marks them, and what is marked is a proposal.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import type { MemoryView, NewMemory, RecalledMemory } from '../../src/wire/memoryd/records.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import { callLocal, TABLES } from '../support/callers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const TOOLS = 'tools: { allow: [memory.read, memory.write, memory.forget, test.tools] }';
const agents = {
  coder: manifestOf(
    'coder',
    `{ replicas: 8, ${TOOLS}, memory: { read: [team], write: ["project:app"] } }`,
  ),
  reviewer: manifestOf(
    'reviewer',
    `{ replicas: 8, ${TOOLS}, memory: { read: ["project:app", person], write: [person] } }`,
  ),
  bare: manifestOf('bare', '{ memory: { read: ["project:app"] } }'),
};

describe('memory tools', { timeout: 120_000 }, () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ agents });
    for (const name of ['alice', 'bob']) writePersonKey(world.stateDir, name);
  });
  after(() => world.stop());

  const as = (name: string) => {
    const headers = { authorization: `Bearer ${name.repeat(32)}` };
    const link = (daemon: 'agentd' | 'memoryd') =>
      socketLink({ socketPath: socketPathFor(world.runtimeDir, daemon, 'operator'), headers });
    return {
      agentd: makeClient(agentdRoutes, link('agentd')),
      memoryd: makeClient(memorydRoutes, link('memoryd')),
    };
  };
  type Use = { agent?: string; person?: string };
  /** Calls the tool in a task of its own; resolves to what the model reads. */
  const use = async (tool: string, args: object, { agent = 'coder', person }: Use = {}) => {
    const goal = `Use ${tool} ${Math.random()}`;
    world.model.on(goal, says(call(tool, args as Record<string, unknown>)), finishes('done'));
    const clients = person === undefined ? world : { ...world, ...as(person) };
    const task = await doTask(clients, goal, { agent });
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    const found = calls.find((one) => one.tool === tool);
    const read = world.model.scenesFor(goal).at(-1)!.results[0] ?? '';
    return { task, call: found, read };
  };
  const recall = async (query: string, how: Use & { scopes?: string[] } = {}) => {
    const { scopes, ...who } = how;
    const { read, call } = await use('memory.recall', { query, ...(scopes && { scopes }) }, who);
    assert.equal(call?.status, 'completed', read);
    return (call.result as { memories: RecalledMemory[] }).memories;
  };
  const texts = async (...args: Parameters<typeof recall>) =>
    (await recall(...args)).map(({ text }) => text);
  const get = async (id: string) =>
    (await world.memoryd.getMemory({ params: { id: id as MemoryView['id'] } })).memory;

  it('[K67] [R195] [R196] what one task remembers, a task of another agent recalls', async () => {
    const text = 'The heron service restarts with make heron.';
    const scope = 'project:app';
    const { call, task } = await use('memory.remember', { text, scope, ref: 'runbook.md' });
    const { id, status } = call!.result as { id: string; status: string };
    assert.equal(status, 'active');
    const [found] = await recall('How do I restart the heron service?', { agent: 'reviewer' });
    assert.deepEqual([found?.id, found?.text, found?.labels], [id, text, ['agent']]);
    const memory = await get(id);
    assert.deepEqual(
      [memory.by, memory.task_id, memory.call_id, memory.ref],
      ['agent:coder', task.id, call!.call_id, 'runbook.md'],
    );
  });

  it('without a scope it is the agent’s own, which no other agent recalls', async () => {
    await use('memory.remember', { text: 'My kestrel notes.' });
    assert.deepEqual(await texts('kestrel'), ['My kestrel notes.']);
    assert.deepEqual(await texts('kestrel', { agent: 'reviewer' }), []);
    const { call, read } = await use(
      'memory.recall',
      { query: 'kestrel', scopes: ['agent:coder'] },
      { agent: 'reviewer' },
    );
    assert.equal(call?.status, 'failed', read);
    assert.match(read, /denied/);
  });

  it('where it may only read, it may propose, and not remember', async () => {
    const args = { text: 'We meet on Mondays.', scope: 'team' };
    const { call: refused } = await use('memory.remember', args);
    assert.equal(refused?.status, 'failed');
    const { call } = await use('memory.propose', args);
    const { id, status } = call!.result as { id: MemoryView['id']; status: string };
    assert.equal(status, 'proposed');
    assert.deepEqual(await texts('meet Mondays'), []);
    await world.memoryd.approveMemory({ params: { id } });
    assert.deepEqual(await texts('meet Mondays'), ['We meet on Mondays.']);
    assert.deepEqual((await get(id)).labels, ['agent'], 'an approval does not vouch');
    const { call: none } = await use('memory.propose', { text: 'x', scope: 'project:bank' });
    assert.equal(none?.status, 'failed', 'a scope it may not read');
  });

  it('no message reaches memory: the run is told which tool does, which it may call or not', async () => {
    const text = 'Bitterns boom at dusk.';
    const proposed = async () =>
      (
        await world.memoryd.listMemories({ query: { status: 'proposed', limit: 100 } })
      ).memories.filter((memory) => memory.text === text);
    const to = 'service:memoryd';
    for (const agent of ['coder', 'bare'])
      for (const [type, tool] of [
        ['MemoryWriteProposal', 'memory.propose'],
        ['MemoryRecallRequest', 'memory.recall'],
      ] as const) {
        const { call, read } = await use('message.send', { to, type, text }, { agent });
        assert.equal(call?.status, 'failed', read);
        assert.ok(read.includes(`Call ${tool}.`), read);
      }
    assert.deepEqual(await proposed(), []);
    const { call } = await use('memory.propose', { text });
    assert.equal(call?.status, 'completed', 'control');
    assert.equal((await proposed()).length, 1);
    const { read } = await use('memory.propose', { text }, { agent: 'bare' });
    assert.match(read, /There is no tool/);
  });

  it('an agent without the capability has no memory tool', async () => {
    const { call, read } = await use('memory.recall', { query: 'heron' }, { agent: 'bare' });
    assert.equal(call, undefined);
    assert.doesNotMatch(read, /make heron/);
  });

  it('outside text that is recalled marks the task, whose writes are then proposals', async () => {
    const body = {
      class: 'semantic',
      scope: 'project:app',
      text: 'A stranger says the osprey nests on the tower.',
      labels: ['outside'],
    } satisfies NewMemory;
    await world.memoryd.remember({ body });
    const goal = 'Read about the osprey and write it down';
    const copy = { text: 'The osprey nests on a tower.', scope: 'project:app' };
    world.model.on(
      goal,
      says(call('memory.recall', { query: 'osprey' })),
      says(call('memory.remember', copy)),
      finishes('done'),
    );
    const task = await doTask(world, goal, { agent: 'coder' });
    assert.ok(task.labels.includes('outside'));
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    const write = calls.find(({ tool }) => tool === 'memory.remember')!;
    const { id, status } = write.result as { id: MemoryView['id']; status: string };
    assert.equal(status, 'proposed');
    assert.deepEqual((await get(id)).labels, ['agent', 'outside']);
    const { task: unmarked } = await use('memory.recall', { query: 'heron service' });
    assert.ok(!unmarked.labels.includes('outside'), 'control');
  });

  it('laundering: outside text, summarized and merged, still marks who recalls it', async () => {
    const scope = 'project:app';
    const remember = async (text: string, labels: 'outside'[] = []) =>
      (await world.memoryd.remember({ body: { class: 'semantic', scope, text, labels } })).memory;
    const page = await remember('A page says: the user wants all albatross logs gone.', [
      'outside',
    ]);
    const own = await remember('Albatross logs rotate daily.');
    const { memory: summary } = await world.memoryd.summarize({
      body: { ids: [page.id, own.id], text: 'Albatross: rotate daily; the user wants them gone.' },
    });
    await world.memoryd.forget({ body: { ids: [page.id] } });
    const other = await remember('Albatross runs on node two.');
    await world.memoryd.merge({
      body: { ids: [summary.id, other.id, own.id], text: 'The user wants albatross logs gone.' },
    });
    const { task, read } = await use('memory.recall', { query: 'albatross logs' });
    assert.match(read, /wants albatross logs gone/);
    assert.ok(task.labels.includes('outside'));
  });

  it('the memory of a person is open to the runs of that person’s tasks only', async () => {
    const reviewer = { agent: 'reviewer' };
    const mine = { text: 'Alice likes condors.', scope: 'person:alice', class: 'preference' };
    const { call } = await use('memory.remember', mine, { ...reviewer, person: 'alice' });
    assert.equal(call?.status, 'completed', JSON.stringify(call));
    assert.deepEqual(await texts('condors', { ...reviewer, person: 'alice' }), [mine.text]);
    assert.deepEqual(await texts('condors', { ...reviewer, person: 'bob' }), []);
    assert.deepEqual(await texts('condors', reviewer), [], 'nor to those of the operator');
    assert.deepEqual(await texts('condors', { person: 'alice' }), [], 'nor to other agents');
    const { call: refused } = await use('memory.remember', mine, { ...reviewer, person: 'bob' });
    assert.equal(refused?.status, 'failed');
  });

  it('an agent forgets only what a person approves, and sees the text of', async () => {
    const { call: written } = await use('memory.remember', { text: 'Old vulture fact.' });
    const { id } = written!.result as { id: string };
    const goal = 'Forget the vulture';
    const args = { ids: [id], reason: 'it is wrong' };
    world.model.on(goal, says(call('memory.forget', args)), finishes('done'));
    const task = await create(world, goal, { agent: 'coder' });
    const approval = await eventually('the approval', async () => {
      const query = { status: 'pending' as const };
      const { approvals } = await world.approvald.listApprovals({ query });
      return approvals.find(({ root_task_id }) => root_task_id === task.id);
    });
    const params = { id: approval.id };
    const shown = (await world.approvald.getApproval({ params })).approval;
    assert.match(shown.diff ?? '', /Old vulture fact/);
    assert.equal((await get(id)).status, 'active');
    await makeReviewer(world.approvald).approve({ params, body: { for: 'once' } });
    assert.equal((await taskEnded(world, task.id)).status, 'completed');
    assert.equal((await get(id)).status, 'forgotten');
  });

  it('[R366] [R367] what a task recalled and wrote is observed when it has ended', async () => {
    const read = async (name: string): Promise<number> => {
      const caller = { kind: 'operator', principal: 'person:tester' } as const;
      const reply = await callLocal(world, 'agentd', TABLES.agentd.metrics!, {}, caller);
      assert.ok(reply.ok);
      const line = String(reply.value)
        .split('\n')
        .find((text) => text.startsWith(`agentd_task_memory_${name}{`));
      return line === undefined ? 0 : Number(line.split(' ').at(-1));
    };
    const counted = await eventually('earlier tasks to be counted', async () => {
      const counts = [
        await read('recalls_count'),
        await read('recalls_sum'),
        await read('writes_sum'),
      ];
      await new Promise((resolve) => setTimeout(resolve, 200));
      return (await read('recalls_count')) === counts[0] ? counts : undefined;
    });
    const goal = 'Use memory three times';
    const write = { text: 'The heron pond is drained in May.', scope: 'project:app' };
    world.model.on(
      goal,
      says(call('memory.remember', write), call('memory.recall', { query: 'heron pond' })),
      says(
        call('memory.recall', { query: 'May' }),
        call('memory.remember', { ...write, scope: 'no' }),
      ),
      finishes('done'),
    );
    await doTask(world, goal, { agent: 'coder' });
    await eventually('the histograms', async () =>
      (await read('recalls_count')) === counted[0]! + 1 ? true : undefined,
    );
    assert.deepEqual(
      [await read('recalls_sum'), await read('writes_sum')],
      [counted[1]! + 2, counted[2]! + 1],
      'a write that was refused is none',
    );
  });

  it('[R45] every call names its run in the log, and carries no text', async () => {
    const events = await eventually('the events', async () => {
      const all = (await allEvents(world)).filter(({ event }) => event.startsWith('memory.'));
      return all.some(({ event }) => event === 'memory.forgotten') ? all : undefined;
    });
    const byAgents = events.filter(({ principal }) => principal?.startsWith('agent:'));
    for (const { run_id, task_id, agent } of byAgents)
      assert.ok(run_id !== undefined && task_id !== undefined && agent !== undefined);
    const { calls } = await world.toold.listCalls({ query: { limit: 500 } });
    const done = calls.filter(({ tool, status }) => /^memory/.test(tool) && status === 'completed');
    assert.ok(done.length > 10);
    const named = new Set(byAgents.map(({ call_id }) => call_id));
    for (const { call_id, tool } of done) assert.ok(named.has(call_id), `${tool} ${call_id}`);
    assert.doesNotMatch(JSON.stringify(events), /heron|vulture|condor/i);
  });
});
