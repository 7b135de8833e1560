// Messages: one envelope and twelve types; who may write to whom is checked; each is delivered
// once, in order per sender and receiver.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { MESSAGE_TYPES, type MessageType } from '../../src/wire/agentd.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  openWait,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
  TEAM,
} from '../support/scripted-world.ts';

/** Message types for other agents, and those of what services do, with the call instead. */
const TO_COLLEAGUES = [
  ...([
    'TaskAccepted',
    'TaskRejected',
    'TaskProgress',
    'TaskResult',
    'ArtifactReady',
    'Error',
  ] as const),
  'Heartbeat' as const,
];
const TO_SERVICES: [MessageType, service: string, hint: RegExp][] = [
  ['MemoryRecallRequest', 'memoryd', /Call memory\.recall\./],
  ['MemoryWriteProposal', 'memoryd', /Call memory\.propose\./],
  ['ToolRequest', 'toold', /Call the tool directly\./],
  ['ApprovalRequest', 'approvald', /Call the tool directly: if/],
];

describe('messages', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        ...TEAM,
        clerk: manifestOf('clerk', '{ team: { talkTo: [coder] } }'),
        hermit: manifestOf('hermit'),
      },
    });
  });
  after(() => world.stop());

  const sentIn = async (contextId: string) =>
    (
      await world.agentd.listMessages({ query: { context_id: contextId as never, limit: 100 } })
    ).messages.toReversed();
  const textOf = (message: { parts: { kind: string; text?: string }[] }) =>
    message.parts.map((part) => part.text ?? '').join();

  it('[R4] [R44] delivers every agent message type once and in order', async () => {
    assert.equal(TO_COLLEAGUES.length + TO_SERVICES.length + 1, MESSAGE_TYPES.length);
    world.model.on(
      'Tell the coder everything',
      says(call('task.delegate', { agent: 'coder', goal: 'Listen', wait: false })),
      ...TO_COLLEAGUES.map((type) =>
        says(call('message.send', { to: 'coder', type, text: `a ${type}` })),
      ),
      says(call('task.delegate', { agent: 'researcher', goal: 'Close the thread' })),
      finishes('told'),
    );
    world.model.on(
      'Listen',
      says(call('person.ask', { question: 'Has it all come?' })),
      ({ messages }) => finishes(messages.map(({ content }) => content).join('\n')),
    );
    const task = await create(world, 'Tell the coder everything', { agent: 'planner' });
    assert.equal((await taskEnded(world, task.id)).result, 'told');
    const { tree } = await world.agentd.getTree({ params: { id: task.id } });
    const listener = tree.children.find((child) => child.task.assigned_to === 'coder')!.task;
    const wait = await openWait(world, listener.id, 'question');
    await world.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'yes' } });
    const received = (await taskEnded(world, listener.id)).result ?? '';
    const order = TO_COLLEAGUES.map((type) => received.indexOf(`a ${type}`));
    assert.ok(
      order.every((at, i) => at > (order[i - 1] ?? 0)),
      received,
    );
    for (const type of TO_COLLEAGUES) assert.equal(received.split(`a ${type}`).length, 2, type);

    const messages = (await sentIn(task.context_id)).filter(
      ({ from, to }) => from === 'agent:planner' && to === 'agent:coder',
    );
    assert.deepEqual(
      messages.map(({ type }) => type),
      ['TaskRequest', ...TO_COLLEAGUES],
    );
    assert.deepEqual(
      messages.map(({ pair_seq }) => pair_seq),
      messages.map((_, i) => i + 1),
    );
    assert.ok(messages.every(({ delivered_at }) => delivered_at !== null));
    assert.ok(messages.every(({ labels }) => labels.includes('agent')));
    const ids = messages.slice(1).map(({ id }) => id);
    const delivered = await eventually('their delivery in the log', async () => {
      const query = { event: 'message.delivered', limit: 500 };
      const { events } = await world.audit.events({ query });
      const own = events.map(({ data }) => data?.message).filter((id) => ids.includes(id as never));
      return own.length >= ids.length ? own : undefined;
    });
    assert.deepEqual(delivered.sort(), ids.toSorted(), 'each once');
  });

  it('[R256] [R260] [R268] a person’s TaskRequest becomes a task, and agents get results as TaskResult', async () => {
    const { message } = await world.agentd.sendMessage({
      body: {
        type: 'TaskRequest',
        to: 'agent:planner',
        parts: [{ kind: 'text', text: 'Do me a favour' }],
      },
    });
    const task = await taskEnded(world, message.task_id!);
    assert.equal(task.goal, 'Do me a favour');
    assert.equal(task.created_by, 'person:tester');
    assert.equal(message.context_id, task.context_id);
    world.model.on(
      'Hand it on',
      says(call('task.delegate', { agent: 'coder', goal: 'Make it' })),
      finishes('ok'),
    );
    world.model.on('Make it', finishes('made'));
    const whole = await doTask(world, 'Hand it on', { agent: 'planner' });
    const types = (await sentIn(whole.context_id)).map((sent) => [
      sent.type,
      sent.from,
      textOf(sent),
    ]);
    assert.deepEqual(types, [
      ['TaskRequest', 'agent:planner', 'Make it'],
      ['TaskResult', 'agent:coder', 'made'],
    ]);
  });

  it('services are called, not written to: agents and people are told which call', async () => {
    world.model.on(
      'Ask the services',
      says(
        ...TO_SERVICES.map(([type, service]) =>
          call('message.send', { to: `service:${service}`, type, text: 'please' }),
        ),
      ),
      ({ results }) => finishes(results.join('\n')),
    );
    const task = await doTask(world, 'Ask the services', { agent: 'coder' });
    for (const [type, service, hint] of TO_SERVICES) {
      assert.match(task.result ?? '', new RegExp(`a ${type} is not delivered`));
      assert.match(task.result ?? '', hint);
      const to = `service:${service}`;
      const parts = [{ kind: 'text' as const, text: 'please' }];
      const body = { type, to, parts, task_id: task.id };
      const refused = await refusedWith('bad_request', world.agentd.sendMessage({ body }));
      assert.match(refused.hint, /agentctl/);
    }
    assert.equal(task.result?.split('(bad_request)').length, TO_SERVICES.length + 1);
    assert.deepEqual(await sentIn(task.context_id), []);
  });

  it('[R4] [R10] [R32] an agent can write only to its thread and to agents its manifest names', async () => {
    const tries = (agent: string, to: string, type = 'TaskProgress') => {
      const goal = `${agent} writes to ${to} a ${type}`;
      world.model.on(goal, says(call('message.send', { to, type, text: 'hello' })), ({ results }) =>
        finishes(results.join()),
      );
      return doTask(world, goal, { agent });
    };
    assert.match((await tries('clerk', 'coder')).result ?? '', /message_id/, 'named in talkTo');
    assert.match((await tries('hermit', 'coder')).result ?? '', /denied|may not write/);
    assert.match((await tries('clerk', 'hermit')).result ?? '', /neither in this thread nor in/);
    assert.match((await tries('clerk', 'clerk')).result ?? '', /cannot write to itself/);
    assert.match(
      (await tries('clerk', 'nobody-here')).result ?? '',
      /may not write|agent nobody-here not found/,
    );
    assert.match((await tries('clerk', 'coder', 'TaskRequest')).result ?? '', /task\.delegate/);
    assert.match((await tries('hermit', 'person:tester')).result ?? '', /message_id/);
    assert.match((await tries('hermit', 'external:mail:x@example.org')).result ?? '', /no gateway/);
  });

  it('[C165] a flood is delivered completely, once and in order; a message has a size limit', async () => {
    world.model.on('Stand in the flood', says(call('timer.wait', { after_s: 5 })), ({ messages }) =>
      finishes(messages.map(({ content }) => content).join('\n')),
    );
    const task = await create(world, 'Stand in the flood', { agent: 'coder' });
    await openWait(world, task.id, 'timer');
    const send = (text: string) =>
      world.agentd.sendMessage({
        body: {
          type: 'TaskProgress',
          to: 'agent:coder',
          task_id: task.id,
          parts: [{ kind: 'text', text }],
        },
      });
    for (let n = 0; n < 50; n++) await send(`drop ${n}.`);
    await refusedWith('bad_request', send('x'.repeat(65_537)));
    world.clock.advance(6_000);
    const received = (await taskEnded(world, task.id)).result ?? '';
    const order = [...received.matchAll(/drop (\d+)\./g)].map(([, n]) => Number(n));
    assert.deepEqual(
      order,
      Array.from({ length: 50 }, (_, n) => n),
    );
  });

  it('[R133] a message to an idle agent waits for the next step in that thread', async () => {
    world.model.on('Work in peace', says(call('timer.wait', { after_s: 5 })), ({ messages }) =>
      finishes(messages.map(({ content }) => content).join('\n')),
    );
    const task = await create(world, 'Work in peace', { agent: 'coder' });
    await openWait(world, task.id, 'timer');
    const { message } = await world.agentd.sendMessage({
      body: {
        type: 'TaskProgress',
        to: 'agent:coder',
        task_id: task.id,
        parts: [{ kind: 'text', text: 'The roof leaks.' }],
      },
    });
    assert.equal(message.delivered_at, null);
    world.clock.advance(6_000);
    assert.match((await taskEnded(world, task.id)).result ?? '', /The roof leaks\./);
    const kinds = await eventually('the events', async () => {
      const { events } = await world.audit.events({ query: { limit: 1_000, order: 'desc' } });
      const own = events.filter(({ id }) => id.startsWith(message.id)).map(({ event }) => event);
      return own.length === 2 ? own.sort() : undefined;
    });
    assert.deepEqual(kinds, ['message.delivered', 'message.sent']);
  });
});
