// Threads that end: agents that keep writing to each other stop by the rule. The one whose move it
// is decides, or a person is asked; embedded and split.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { MessageView, TaskView } from '../../src/wire/agentd.ts';
import {
  type Clients,
  eventually,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  type ScriptedScene,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import {
  create,
  manifestOf,
  openWait,
  reaches,
  type ScriptedWorld,
  scriptedModels,
  startScriptedWorld,
  taskNow,
} from '../support/scripted-world.ts';

const FREE = '{ replicas: 8, tools: { allow: [task.delegate] } }';
const AGENTS = Object.fromEntries(
  ['planner', 'ping', 'pong'].map((name) => [name, manifestOf(name, FREE)]),
);

const writes = (to: string, text: string, more: object = {}) =>
  says(call('message.send', { to, text, wait_reply: true, ...more }));
const lastResult = ({ results }: ScriptedScene): string => results.at(-1) ?? '';

/** Two agents that are told to keep writing to each other, by one that waits for both. */
function scriptTalk(
  model: ScriptedModel,
  name: string,
  say: (agent: string, scene: ScriptedScene) => ReturnType<typeof says>,
): string {
  const goal = `Let them talk ${name}`;
  const talks = (agent: string) => `Talk as ${agent} ${name}`;
  model.on(
    goal,
    says(
      call('task.delegate', { agent: 'pong', goal: talks('pong') }),
      call('task.delegate', { agent: 'ping', goal: talks('ping') }),
    ),
    ({ results }) => finishes(results.join('\n')),
  );
  for (const agent of ['ping', 'pong']) model.on(talks(agent), (scene) => say(agent, scene));
  return goal;
}

const other = (agent: string): string => (agent === 'ping' ? 'pong' : 'ping');
const isOver = (scene: ScriptedScene): boolean =>
  /ended what agents write|without a reply/.test(lastResult(scene));
/** Goes on whatever it is told, until it is told that there is nobody to write to. */
const goesOn = (agent: string, scene: ScriptedScene) =>
  isOver(scene)
    ? finishes(`${agent} stops: ${lastResult(scene)}`)
    : writes(other(agent), `${agent} has thought number ${scene.step}`);

async function readTalk(clients: Clients, root: TaskView): Promise<MessageView[]> {
  const query = { context_id: root.context_id, limit: 100 };
  const { messages } = await clients.agentd.listMessages({ query });
  return messages.filter(({ type }) => type === 'TaskProgress').toReversed();
}

const threadOf = async (clients: Clients, root: TaskView) =>
  (await clients.agentd.getThread({ params: { id: root.context_id } })).thread;

const questionIn = (clients: Clients, root: TaskView) =>
  eventually('a person to be asked', async () => {
    const query = { status: 'open', kind: 'question' } as const;
    const { waits } = await clients.agentd.listWaits({ query });
    const tasks = await Promise.all(waits.map(({ task_id }) => taskNow(clients, task_id)));
    return waits.find((_, i) => tasks[i]!.context_id === root.context_id);
  });

const limitsIn = (clients: Clients, root: TaskView, count: number) =>
  eventually(`${count} refused turns in the log`, async () => {
    const query = { event: 'thread.limited', limit: 100 };
    const { events } = await clients.audit.events({ query });
    const own = events.filter(({ root_task_id }) => root_task_id === root.id);
    return own.length >= count ? own.sort((a, b) => a.seq - b.seq) : undefined;
  });

const TURNS_MAX = 8;

for (const mode of ['embedded', 'split'] as const)
  describe(`threads, ${mode}`, () => {
    let model: ScriptedModel;
    let world: TestRuntime;
    const start = (threads: object) =>
      startRuntime({
        mode,
        agents: AGENTS,
        config: JSON.stringify({ modeld: scriptedModels(model.url), agentd: { threads } }),
      });
    before(async () => {
      model = await startScriptedModel();
      world = await start({ turns_max: TURNS_MAX });
    });
    after(async () => {
      await world.remove();
      await model.close();
    });

    it('two agents told to keep replying to each other stop by the rule, and a person decides', async () => {
      const root = await create(world, scriptTalk(model, 'for ever', goesOn), { agent: 'planner' });
      const question = await questionIn(world, root);
      // Two of the turns are the planner's delegations.
      assert.equal((await readTalk(world, root)).length, TURNS_MAX - 2);
      assert.match(question.question ?? '', /May agent:p[io]ng and agent:p[io]ng go on\?/);
      assert.match(question.question ?? '', /8 turns since a person last wrote/);
      assert.match(question.question ?? '', /has thought number/, 'shows what they wrote last');
      assert.deepEqual(question.choices, ['go on', 'stop']);
      await reaches(world, question.task_id, 'waiting');
      await reaches(world, root.id, 'waiting');
      await eventually('no run to be live', async () =>
        (await world.agentd.status({})).runs.live === 0 ? true : undefined,
      );
      const thread = await threadOf(world, root);
      assert.deepEqual([thread.turns, thread.turns_max], [TURNS_MAX, TURNS_MAX]);
      assert.equal(thread.next_move.owner, root.created_by, 'the next move is a person’s');
      assert.match(thread.next_move.why, new RegExp(question.id));
      const calls = model.scenes.length;

      await world.agentd.answerWait({ params: { id: question.id }, body: { answer: 'stop' } });
      const ended = await taskEnded(world, root.id);
      assert.equal(ended.status, 'completed');
      assert.match(ended.result ?? '', /stops: .*ended what agents write to each other/);
      assert.match(ended.result ?? '', /stops: .*ended its task in this thread without a reply/);
      assert.equal((await readTalk(world, root)).length, TURNS_MAX - 2, 'nothing more was sent');
      assert.ok(model.scenes.length <= calls + 3, 'each was called once more');
      const events = await limitsIn(world, root, 2);
      assert.deepEqual(
        events.map(({ status, data }) => [status, data?.asks_person]),
        [
          ['turns', false],
          ['turns', true],
        ],
      );
    });

    it('control: without the limit the same two go on beyond it', async () => {
      const free = await start({ turns_max: 0 });
      try {
        const goal = scriptTalk(model, 'a long time', (agent, scene) =>
          scene.step >= TURNS_MAX * 2 ? finishes(`${agent} is tired`) : goesOn(agent, scene),
        );
        const root = await create(free, goal, { agent: 'planner' });
        assert.equal((await taskEnded(free, root.id)).status, 'completed');
        assert.ok((await readTalk(free, root)).length > TURNS_MAX * 2);
      } finally {
        await free.remove();
      }
    });
  });

describe('threads', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: { ...AGENTS, loner: manifestOf('loner', '{ team: { talkTo: [pong] } }') },
      agentd: { threads: { turns_max: TURNS_MAX } },
    });
  });
  after(() => world.stop());

  it('at the limit the owner of the next move is told so, and decides', async () => {
    const goal = scriptTalk(world.model, 'and decide', (agent, scene) =>
      /limit/.test(lastResult(scene))
        ? finishes(`${agent} decides after: ${lastResult(scene)}`)
        : goesOn(agent, scene),
    );
    const root = await create(world, goal, { agent: 'planner' });
    const { result } = await taskEnded(world, root.id);
    assert.match(result ?? '', /decides after: .*turns since a person last wrote in this thread/);
    assert.match(result ?? '', /The next move is yours: decide with what you have/);
    assert.match(result ?? '', /person\.ask/);
    assert.equal((await readTalk(world, root)).length, TURNS_MAX - 2);
    const { waits } = await world.agentd.listWaits({ query: { status: 'open' } });
    assert.deepEqual(waits, [], 'nobody had to be asked');
  });

  it('a person lets them go on, for as many turns again', async () => {
    const goal = scriptTalk(world.model, 'once more', goesOn);
    const root = await create(world, goal, { agent: 'planner' });
    const first = await questionIn(world, root);
    await world.agentd.answerWait({ params: { id: first.id }, body: { answer: 'go on' } });
    const second = await eventually('the next question', async () => {
      const wait = await questionIn(world, root);
      return wait.id === first.id ? undefined : wait;
    });
    assert.equal((await readTalk(world, root)).length, TURNS_MAX - 2 + TURNS_MAX);
    await world.agentd.answerWait({ params: { id: second.id }, body: { answer: 'stop' } });
    await taskEnded(world, root.id);
  });

  it('each is told which turn it is, and when the next move is its own', async () => {
    const goal = scriptTalk(world.model, 'with notes', (agent, scene) => {
      const seen = scene.messages.map(({ content }) => content).join('\n');
      if (agent === 'ping')
        return scene.step === 0 ? writes('pong', 'Are you there?') : finishes(lastResult(scene));
      if (scene.step === 0) return says(call('timer.wait', { after_s: 5 }));
      return scene.step === 1
        ? says(call('message.send', { to: 'ping', text: `I read: ${seen.slice(-200)}` }))
        : finishes('done');
    });
    const root = await create(world, goal, { agent: 'planner' });
    const pong = await eventually('pong', async () =>
      (await world.agentd.listTasks({ query: { agent: 'pong', limit: 1 } })).tasks.find(
        ({ context_id }) => context_id === root.context_id,
      ),
    );
    await openWait(world, pong.id, 'timer');
    await eventually('the question of ping', async () =>
      (await readTalk(world, root)).length === 1 ? true : undefined,
    );
    world.clock.advance(6_000);
    const { result } = await taskEnded(world, root.id);
    assert.match(
      result ?? '',
      /turn 3 of 8 in this thread; it waits for your reply, so the next move is yours/,
    );
    assert.match(result ?? '', /turn\W+n\W+4,\W+max\W+8,\W+awaits_reply\W+false/);
  });

  it('a loop of the same texts stops before the limit', async () => {
    const goal = scriptTalk(world.model, 'in circles', (agent, scene) =>
      /repeat what they said before/.test(lastResult(scene))
        ? finishes(`${agent} is told: ${lastResult(scene)}`)
        : isOver(scene)
          ? finishes(`${agent} ends`)
          : writes(other(agent), agent === 'ping' ? 'What do you think?' : 'What do YOU think??'),
    );
    const root = await create(world, goal, { agent: 'planner' });
    const { result } = await taskEnded(world, root.id);
    assert.match(result ?? '', /is told: .*say something new/);
    assert.ok((await readTalk(world, root)).length <= 4);
    const [limited] = await limitsIn(world, root, 1);
    assert.equal(limited?.status, 'repeats');
  });

  it('work that is handed back and forth stops, too', async () => {
    const hand = (to: string) => call('task.delegate', { agent: to, goal: 'Find out who does it' });
    world.model.on('Find out who does it', (scene) =>
      scene.results.length === 0
        ? says(hand(other(scene.agent)))
        : finishes(`${scene.agent}: ${lastResult(scene)}`),
    );
    const root = await create(world, 'Find out who does it', { agent: 'ping' });
    const { result } = await taskEnded(world, root.id);
    assert.match(result ?? '', /repeat what they said before/);
    const { tasks } = await world.agentd.listTasks({ query: { root_task_id: root.id } });
    assert.equal(tasks.length, 4, 'the first, and three that were handed on');
  });

  it('what a message quotes of its thread is left out, and a digest takes its place', async () => {
    const goal = scriptTalk(world.model, 'with quotes', (agent, scene) => {
      if (agent === 'ping')
        return scene.step === 0
          ? writes('pong', 'Shall we take the first design?')
          : finishes(lastResult(scene));
      if (scene.step === 0) return says(call('timer.wait', { after_s: 5 }));
      const text =
        'agent:ping wrote:\n> Shall we take the first design?\n> > It is a year old.\n\nNo.\n> The manual: never.';
      return scene.step === 1 ? says(call('message.send', { to: 'ping', text })) : finishes('done');
    });
    const root = await create(world, goal, { agent: 'planner' });
    await eventually('the question of ping', async () =>
      (await readTalk(world, root)).length === 1 ? true : undefined,
    );
    const query = { status: 'open', kind: 'timer' } as const;
    await eventually('the timer', async () => (await world.agentd.listWaits({ query })).waits[0]);
    world.clock.advance(6_000);
    await taskEnded(world, root.id);
    const [, reply] = await readTalk(world, root);
    const [part] = reply!.parts;
    assert.equal(
      part?.kind === 'text' ? part.text : '',
      'No.\n> The manual: never.\n\n[2 quoted lines are left out. Earlier between you:\n' +
        '- agent:ping: Shall we take the first design?]',
    );
  });

  it('nobody waits for one that is gone', async () => {
    world.model.on('Talk to nobody', writes('pong', 'Hello?'), (scene) =>
      finishes(lastResult(scene)),
    );
    const alone = await create(world, 'Talk to nobody', { agent: 'loner' });
    assert.match(
      (await taskEnded(world, alone.id)).result ?? '',
      /agent:pong has no open task in this thread.*task\.delegate/,
    );
    const goal = scriptTalk(world.model, 'not at all', (agent, scene) =>
      agent === 'pong'
        ? finishes('nothing to say')
        : scene.results.length === 0
          ? writes('pong', 'Hello?')
          : finishes(lastResult(scene)),
    );
    const root = await create(world, goal, { agent: 'planner' });
    assert.match((await taskEnded(world, root.id)).result ?? '', /without a reply|no open task/);
  });

  it('a thread that has cost enough ends like one with too many turns', async () => {
    const poor = await startScriptedWorld({
      agents: AGENTS,
      agentd: { threads: { cost_microusd_max: 1_500 } },
    });
    try {
      const goal = scriptTalk(poor.model, 'for money', (agent, scene) =>
        /has cost/.test(lastResult(scene))
          ? finishes(`${agent}: ${lastResult(scene)}`)
          : goesOn(agent, scene),
      );
      const root = await create(poor, goal, { agent: 'planner' });
      const { result } = await taskEnded(poor, root.id);
      assert.match(result ?? '', /has cost 0\.0015 USD, which is its limit/);
      const sent = await readTalk(poor, root);
      assert.ok(sent.length > 0 && sent.length < 8, `${sent.length} messages at 300 µUSD a call`);
    } finally {
      await poor.stop();
    }
  });
});
