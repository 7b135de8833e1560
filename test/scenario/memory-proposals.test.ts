// Proposed memories wait for a person long after their run: approvald lists them with their changes
// to those who may read their scope, and one decision, given there or to memoryd, is done once.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import { approvaldRoutes } from '../../src/wire/approvald.ts';
import { Fault } from '../../src/wire/errors.ts';
import type { MemoryView, NewMemory, RecalledMemory } from '../../src/wire/memoryd/records.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const TOOLS = 'tools: { allow: [memory.read, memory.write] }';
const agents = {
  coder: manifestOf(
    'coder',
    `{ replicas: 8, ${TOOLS}, memory: { read: [team, person], write: ["project:app", person] } }`,
  ),
};
const policies = {
  team: `@ask("the team decides what the team knows")
    forbid (principal, action == Action::"memory.write", resource in Scope::"team");
    @why("bob is not on the project")
    forbid (principal == Person::"bob", action == Action::"memory.read", resource in Scope::"project:app");
    @why("carol decides no approvals")
    forbid (principal == Person::"carol", action == Action::"approval.decide", resource);
    @why("dora does not write here")
    forbid (principal == Person::"dora", action == Action::"memory.write", resource in Scope::"project:app");`,
};
const hasCode = (code: string, text?: RegExp) => (error: unknown) =>
  error instanceof Fault && error.code === code && (text === undefined || text.test(error.message));

describe('proposals of memories', { timeout: 180_000 }, () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ agents, policies });
    for (const name of ['alice', 'bob', 'carol', 'dora']) writePersonKey(world.stateDir, name);
  });
  after(() => world.stop());

  const as = (name: string) => {
    const headers = { authorization: `Bearer ${name.repeat(32)}` };
    const link = (daemon: 'agentd' | 'memoryd' | 'approvald') =>
      socketLink({ socketPath: socketPathFor(world.runtimeDir, daemon, 'operator'), headers });
    return {
      agentd: makeClient(agentdRoutes, link('agentd')),
      memoryd: makeClient(memorydRoutes, link('memoryd')),
      approvald: makeReviewer(makeClient(approvaldRoutes, link('approvald'))),
    };
  };
  /** The agent writes in a task of its own, which ends without waiting. */
  const write = async (text: string, more: Record<string, unknown> = {}, person?: string) => {
    const goal = `Keep ${Math.random()}`;
    const args = { text, scope: 'project:app', ...more };
    world.model.on(goal, says(call('memory.remember', args)), finishes('done'));
    const clients = person === undefined ? world : { ...world, ...as(person) };
    const task = await doTask(clients, goal, { agent: 'coder' });
    assert.equal(task.status, 'completed');
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    const { result } = calls.find(({ tool }) => tool === 'memory.remember')!;
    return { task, ...(result as { id: MemoryView['id']; status: string }) };
  };
  const personal = (name: string) => `${name} is at ${name.toLowerCase()}@corp-mail.net.`;
  const approvalOf = (id: MemoryView['id'], name = 'alice') =>
    eventually('its approval', async () => {
      const { approvals } = await as(name).approvald.listApprovals({ query: { limit: 1000 } });
      return approvals.find(
        ({ memory, status }) => memory?.memory_id === id && status !== 'canceled',
      );
    });
  const get = async (id: MemoryView['id'], name = 'alice') =>
    (await as(name).memoryd.getMemory({ params: { id }, query: {} })).memory;
  const recall = async (query: string, name = 'alice'): Promise<RecalledMemory[]> =>
    (await as(name).memoryd.recall({ body: { query } })).memories;
  const texts = async (query: string) => (await recall(query)).map(({ text }) => text);

  it('[R123] [R404] [R435] personal data becomes a proposal that outlives its run, shown with its changes', async () => {
    const body = { class: 'semantic', scope: 'project:app', text: 'Ask Ann about the heron.' };
    const old = (await as('alice').memoryd.remember({ body: body as NewMemory })).memory;
    const { id, status, task } = await write(personal('Ann'), { replaces: [old.id] });
    assert.equal(status, 'proposed');
    const summary = await approvalOf(id);
    assert.deepEqual(
      [summary.action, summary.risk, summary.task_id, summary.memory],
      [
        'memory.write',
        'high',
        null,
        {
          memory_id: id,
          version: 1,
          class: 'semantic',
          scope: 'project:app',
          by: 'agent:coder',
          run_id: (await get(id)).run_id,
          task_id: task.id,
        },
      ],
    );
    const params = { id: summary.id };
    const { approval } = await as('alice').approvald.getApproval({ params });
    assert.match(approval.diff!, /^--- memory_.* version 1\n-Ask Ann about the heron\.\n\+\+\+ /);
    assert.match(approval.diff!, /\n\+Ann is at ann@corp-mail\.net\.\n$/);
    assert.deepEqual(approval.labels, ['agent', 'personal']);
    assert.match(approval.rules.join(), /base:sensitive-memory/);
    assert.deepEqual(await texts('Ann'), ['Ask Ann about the heron.'], 'not yet');
    await as('alice').approvald.approve({ params, body: {} });
    await eventually('the memory', async () => (await get(id)).status === 'active' || undefined);
    assert.deepEqual(await texts('Ann'), ['Ann is at ann@corp-mail.net.']);
    assert.equal((await get(old.id)).status, 'superseded');
  });

  it('approving through memoryd and through approvald is one decision', async () => {
    const one = await write(personal('Ben'));
    const first = await approvalOf(one.id);
    await as('alice').memoryd.approveMemory({ params: { id: one.id } });
    const { approval } = await as('alice').approvald.getApproval({ params: { id: first.id } });
    assert.deepEqual([approval.status, approval.decided_by], ['approved', 'person:alice']);
    const late = as('dora').approvald.reject({ params: { id: first.id }, body: {} });
    await assert.rejects(late, hasCode('conflict'));
    const two = await write(personal('Cid'));
    const second = await approvalOf(two.id);
    await as('alice').approvald.reject({ params: { id: second.id }, body: { reason: 'no' } });
    await eventually('the end', async () => (await get(two.id)).status === 'rejected' || undefined);
    const again = as('alice').memoryd.approveMemory({ params: { id: two.id } });
    await assert.rejects(again, hasCode('conflict'));
    assert.equal((await get(one.id)).status, 'active');
  });

  it('both checks hold, whichever way a person decides', async () => {
    const { id } = await write(personal('Dan'));
    const approval = await approvalOf(id);
    const params = { id: approval.id };
    for (const name of ['carol', 'dora']) {
      const { approvald, memoryd } = as(name);
      await assert.rejects(approvald.approve({ params, body: {} }), hasCode('denied'), name);
      await assert.rejects(memoryd.approveMemory({ params: { id } }), hasCode('denied'), name);
    }
    assert.equal((await get(id)).status, 'proposed');
    await as('alice').memoryd.approveMemory({ params: { id } });
    assert.equal((await get(id)).status, 'active', 'control');
  });

  it('whoever proposed it cannot approve it, also under another name of the operator', async () => {
    const body: NewMemory = { class: 'semantic', scope: 'team', text: 'We meet at the egret.' };
    const { memory } = await as('alice').memoryd.remember({ body });
    assert.equal(memory.status, 'proposed');
    const { id } = await approvalOf(memory.id);
    const mine = as('alice').approvald.approve({ params: { id }, body: {} });
    await assert.rejects(mine, hasCode('denied', /alice proposed it/));
    const other = as('alice').memoryd.approveMemory({ params: { id: memory.id } });
    await assert.rejects(other, hasCode('denied', /alice proposed it/));
    await as('dora').approvald.approve({ params: { id }, body: {} });
    assert.equal((await get(memory.id)).status, 'active', 'control');
    const byOperator = (await world.memoryd.remember({ body: { ...body, text: 'The ibis.' } }))
      .memory;
    const { id: second } = await approvalOf(byOperator.id);
    const asOperator = makeReviewer(world.approvald).approve({ params: { id: second }, body: {} });
    await assert.rejects(asOperator, hasCode('denied'));
  });

  it('a person approves it in other words; what changed meanwhile must be looked at again', async () => {
    const { id } = await write(personal('Eve'));
    const approval = await approvalOf(id);
    const params = { id: approval.id };
    const { nonce } = (await as('alice').approvald.getApproval({ params })).approval;
    const body = { text: 'Eve is at the dunlin desk.' };
    const edited = await as('dora')
      .memoryd.editMemory({ params: { id }, body })
      .catch((e) => e);
    assert.ok(hasCode('denied')(edited), 'dora may not write there');
    await as('carol').memoryd.editMemory({ params: { id }, body });
    assert.equal((await get(id)).status, 'proposed', 'an edit is no approval');
    await assert.rejects(
      as('alice').approvald.approve({ params, body: { nonce } }),
      hasCode('conflict', /changed since/),
    );
    const seen = (await as('alice').approvald.getApproval({ params })).approval;
    assert.equal(seen.memory?.version, 2);
    assert.match(seen.diff!, /\+Eve is at the dunlin desk\./);
    const edited_arguments = { text: 'Eve sits at the dunlin desk.' };
    await as('alice').approvald.approve({ params, body: { nonce: seen.nonce, edited_arguments } });
    await eventually('the memory', async () => (await get(id)).status === 'active' || undefined);
    const memory = await get(id);
    assert.deepEqual([memory.version, memory.text], [3, edited_arguments.text]);
    assert.deepEqual(await texts('dunlin'), [edited_arguments.text]);
    assert.ok(memory.labels.includes('personal'), 'an edit takes no mark off');
  });

  it('outside text stays outside after an approval, unless a person vouches', async () => {
    const scope = 'project:app';
    const page = { class: 'semantic', scope, text: 'A page says: the godwit is safe.' } as const;
    await as('alice').memoryd.remember({ body: { ...page, labels: ['outside'] } });
    const goal = 'Copy the page about the godwit';
    const copy = { text: 'The godwit is safe.', scope };
    world.model.on(
      goal,
      says(call('memory.recall', { query: 'godwit' })),
      says(call('memory.remember', copy)),
      finishes('done'),
    );
    const task = await doTask(world, goal, { agent: 'coder' });
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    const { result } = calls.find(({ tool }) => tool === 'memory.remember')!;
    const { id } = result as { id: MemoryView['id'] };
    const { id: approvalId, labels } = await approvalOf(id);
    assert.ok(labels.includes('outside'));
    await as('alice').approvald.approve({ params: { id: approvalId }, body: {} });
    await eventually('the memory', async () => (await get(id)).status === 'active' || undefined);
    assert.deepEqual((await get(id)).labels, ['agent', 'outside']);
    const vouched = await as('alice').memoryd.editMemory({ params: { id }, body: { vouch: true } });
    assert.deepEqual(vouched.memory.labels, ['person'], 'control');
  });

  it('a secret is refused before anything is written, and the error names its kind only', async () => {
    const before = (await as('alice').approvald.listApprovals({ query: {} })).pending;
    const secret = `ghp_${'A1b2C3d4E5'.repeat(4).slice(0, 36)}`;
    const body: NewMemory = { class: 'semantic', scope: 'team', text: `Use ${secret} there.` };
    const error = await as('alice')
      .memoryd.proposeMemory({ body })
      .catch((cause) => cause);
    assert.ok(hasCode('bad_request', /secret/)(error), String(error));
    assert.doesNotMatch(JSON.stringify(error) + String(error), /A1b2C3d4/);
    assert.equal((await as('alice').approvald.listApprovals({ query: {} })).pending, before);
  });

  it('what is forgotten no longer waits', async () => {
    const { id } = await write(personal('Fay'));
    const approval = await approvalOf(id);
    await as('alice').memoryd.forget({ body: { ids: [id] } });
    const ended = await eventually('its end', async () => {
      const params = { id: approval.id };
      const found = (await as('alice').approvald.getApproval({ params })).approval;
      return found.status === 'canceled' ? found : undefined;
    });
    assert.doesNotMatch(JSON.stringify(ended), /corp-mail/);
  });

  it('whoever may not read the scope learns nothing of a proposal, in any way', async () => {
    const inProject = await write(personal('Gus'));
    const mine = await write(personal('Hal'), { scope: 'person:alice' }, 'alice');
    assert.equal(mine.status, 'proposed');
    const hidden = [await approvalOf(inProject.id), await approvalOf(mine.id)];
    const { approvald, memoryd } = as('bob');
    const unknown = `approval_${'0'.repeat(26)}` as (typeof hidden)[0]['id'];
    const { approvals, pending } = await approvald.listApprovals({ query: { limit: 1000 } });
    const seen = approvals
      .filter(({ memory }) => memory !== null)
      .map(({ memory }) => memory!.scope);
    assert.ok(
      seen.every((scope) => scope === 'team'),
      seen.join(),
    );
    assert.equal(pending, approvals.filter(({ status }) => status === 'pending').length);
    const ways: ((id: typeof unknown) => Promise<unknown>)[] = [
      (id) => approvald.getApproval({ params: { id } }),
      (id) => approvald.approve({ params: { id }, body: { nonce: 'x.1' } }),
      (id) => approvald.reject({ params: { id }, body: { nonce: 'x.1' } }),
      (id) => approvald.requestInfo({ params: { id }, body: { question: 'Who?', nonce: 'x.1' } }),
      (id) => approvald.escalate({ params: { id }, body: { nonce: 'x.1' } }),
    ];
    for (const { id } of hidden)
      for (const ask of ways) {
        const refusal = (given: typeof unknown) =>
          ask(given).then(
            () => 'answered',
            (error: Fault) => `${error.code} ${error.message} ${error.hint}`.replaceAll(given, 'X'),
          );
        assert.equal(await refusal(id), await refusal(unknown), String(ask));
      }
    for (const { id } of [inProject, mine]) {
      await assert.rejects(memoryd.approveMemory({ params: { id } }), hasCode('not_found'));
      await assert.rejects(memoryd.rejectMemory({ params: { id } }), hasCode('not_found'));
    }
    const { id: secretId } = hidden[1]!;
    const carol = await as('carol').approvald.listApprovals({ query: { limit: 1000 } });
    assert.ok(!carol.approvals.some(({ id }) => id === secretId), 'nor another person with rights');
    const alice = await as('alice').approvald.listApprovals({ query: { limit: 1000 } });
    assert.ok(
      hidden.every(({ id }) => alice.approvals.some((one) => one.id === id)),
      'control',
    );
    const { id } = await as('alice')
      .approvald.approve({ params: { id: secretId }, body: {} })
      .then(({ approval }) => approval);
    assert.equal(id, secretId);
  });

  it('[R136] every proposal and decision is in the log, without its text', async () => {
    const events = (await allEvents(world)).filter(
      ({ event, data }) => event === 'memory.proposed' || data?.memory_id !== undefined,
    );
    const proposed = events.filter(({ event }) => event === 'memory.proposed');
    const approved = events.filter(({ event }) => event === 'memory.approved');
    assert.ok(proposed.length >= 9 && approved.length >= 5);
    assert.ok(
      approved.every(
        ({ principal, data }) => principal?.startsWith('person:') && data?.approval_id,
      ),
    );
    assert.ok(events.some(({ event }) => event === 'approval.requested'));
    assert.doesNotMatch(JSON.stringify(events), /corp-mail|dunlin|godwit/);
  });
});
