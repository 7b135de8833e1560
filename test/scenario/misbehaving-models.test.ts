// Models that loop, write invalid arguments, name tools that do not exist, return nothing or fill
// the context window. The run recovers or ends with the reason, and never runs forever.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type InProcessWorld, startWorld } from '../support/in-process.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, type ScriptedScene, says } from '../support/scripted-model.ts';
import { doTask, type ScriptedWorld, startScriptedWorld } from '../support/scripted-world.ts';

describe('a misbehaving model, played by the rehearsal', () => {
  let world: InProcessWorld;
  before(async () => {
    world = await startWorld();
  });
  after(() => world.stop());

  it('[R407] loops forever: the breaker ends the task before the step limit', async () => {
    const task = await doTask(world, 'loop for ever', { agent: 'coder' });
    assert.equal(task.status, 'failed');
    assert.equal(task.error?.code, 'breaker');
    assert.match(task.error?.message ?? '', /artifact\.put was called 6 times in a row/);
    const { calls } = await world.modeld.listCalls({ query: { task_id: task.id } });
    assert.ok(calls.length <= 7, `${calls.length} steps of 40`);
    await eventually('it in the log', async () => {
      const query = { limit: 500 };
      const { events } = await world.audit.task({ params: { task_id: task.id }, query });
      return events.find(({ event }) => event === 'run.broken');
    });
    assert.equal((await world.agentd.status({})).runs.live, 0);
  });

  it('writes arguments that are not JSON: it gets an error and corrects them', async () => {
    const task = await doTask(world, 'malformed', { agent: 'coder' });
    assert.equal(task.status, 'completed', JSON.stringify(task.error));
    assert.match(task.result ?? '', /this one is right/);
  });

  it('names a tool that does not exist: it gets the list of tools and continues', async () => {
    const task = await doTask(world, 'unknown tool', { agent: 'coder' });
    assert.equal(task.status, 'completed', JSON.stringify(task.error));
    assert.match(task.result ?? '', /I finish without it/);
    const { calls } = await world.modeld.listCalls({ query: { task_id: task.id } });
    const last = await world.modeld.getCall({ params: { id: calls[0]!.call_id } });
    assert.match(JSON.stringify(last.messages), /There is no tool .*The tools are: .*task_finish/);
  });
});

describe('a misbehaving model, scripted', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ toold: { breaker_stale_calls_max: 8 } });
    const { models } = await world.modeld.listModels({});
    assert.equal(models.find(({ name }) => name === 'default')?.context_tokens, 128_000);
  });
  after(() => world.stop());

  it('[R407] repeats a longer cycle: the breaker ends it after a number of calls without progress', async () => {
    world.model.on('Pace up and down', ({ step }) =>
      says(call('test.echo', { text: step % 2 === 0 ? 'left' : 'right' })),
    );
    const task = await doTask(world, 'Pace up and down', { agent: 'coder' });
    assert.equal(task.error?.code, 'breaker');
    assert.match(task.error?.message ?? '', /no new outcome/);
    assert.ok(world.model.scenesFor('Pace up and down').length < 20);
  });

  it('[R407] returns nothing: the call is repeated a few times, then the task fails', async () => {
    world.model.on('Be silent', { text: '' });
    const task = await doTask(world, 'Be silent', { agent: 'coder' });
    assert.equal(task.status, 'failed');
    assert.equal(task.error?.code, 'provider_malformed');
    assert.equal(world.model.scenesFor('Be silent').length, 3);
  });

  it('responds with text only: the text is the result', async () => {
    world.model.on('Just talk', { text: 'It is the cable.' });
    const task = await doTask(world, 'Just talk', { agent: 'coder' });
    assert.equal(task.status, 'completed');
    assert.equal(task.result, 'It is the cable.');
  });

  it('calls a denied tool: it gets the denial and continues', async () => {
    world.model.on(
      'Overreach',
      says(call('task.delegate', { agent: 'coder', goal: 'For me' })),
      ({ results }) => finishes(results.join()),
    );
    const task = await doTask(world, 'Overreach', { agent: 'coder' });
    assert.match(task.result ?? '', /cannot delegate to itself.*\(denied\)/);
  });

  it('writes arguments that violate the schema: nothing is done, and the error names them', async () => {
    world.model.on(
      'Misfit',
      says(call('test.count_effect', { key: 'not a key!', delay_ms: -1 })),
      ({ results }) => finishes(results.join()),
    );
    const task = await doTask(world, 'Misfit', { agent: 'coder' });
    assert.match(task.result ?? '', /key: must be letters/);
    assert.match(task.result ?? '', /delay_ms/);
  });

  it('fills its window: old results and steps are dropped, calls keep their results, and a replay is equal', async () => {
    const small = await startScriptedWorld({
      modeld: {
        models: {
          default: {
            routes: [{ provider: 'scripted', model: 'scripted-1' }],
            context_tokens: 6_000,
            max_output_tokens: 500,
          },
        },
      },
    });
    try {
      let turns = 0;
      small.model.on('Read the whole book', () =>
        ++turns <= 25
          ? says(call('test.echo', { text: `page ${turns} ${'word '.repeat(300)}` }))
          : finishes('read it all'),
      );
      const made = await small.agentd.createTask({
        body: { goal: 'Read the whole book', agent: 'coder' },
      });
      const task = await taskEnded(small, made.task.id);
      assert.equal(task.result, 'read it all', JSON.stringify(task.error));
      const scenes = small.model.scenesFor('Read the whole book');
      assert.equal(scenes.length, 26);
      for (const scene of scenes) {
        assertPaired(scene);
        assert.ok(JSON.stringify(scene.messages).length < 6_000 * 4, 'it fits the window');
        assert.match(String(scene.messages[1]?.content), /Goal: Read the whole book/);
      }
      const last = JSON.stringify(scenes.at(-1)!.messages);
      assert.match(
        last,
        /earlier messages were left out to save space; tools used in them: test_echo/,
      );
      assert.match(last, /page 25 /);
      const { replay } = await small.agentd.replayTask({ params: { id: task.id } });
      assert.deepEqual(replay.differences, []);
      assert.equal(replay.same, true);
    } finally {
      await small.stop();
    }
  });
});

/** Asserts that every call is followed by its result, and every result has its call. */
function assertPaired({ messages }: ScriptedScene): void {
  const open = new Set<string>();
  for (const { role, tool_calls: calls = [], tool_call_id: id } of messages) {
    if (role === 'tool') assert.ok(open.delete(id!), `a result without its call: ${id}`);
    else assert.equal(open.size, 0, `calls without results: ${[...open].join()}`);
    for (const toolCall of calls) open.add(toolCall.id);
  }
  assert.equal(open.size, 0);
}
