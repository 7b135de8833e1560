// Agents as people use them: the manifest of the source document loads unchanged and its agent
// works; agents are paused, resumed, stopped, changed and removed; the manifest's quotas are
// enforced.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { EXAMPLE_MANIFEST } from '../support/example-manifest.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  reaches,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
  taskNow,
} from '../support/scripted-world.ts';

const scripted = { routes: [{ provider: 'scripted', model: 'scripted-1' }] };

describe('agents', () => {
  let world: ScriptedWorld;
  let dir: string;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        coder: EXAMPLE_MANIFEST,
        writer: manifestOf('writer', '{ persona: Writes., limits: { maxSteps: 2, maxTimeS: 90 } }'),
        thrifty: manifestOf('thrifty', '{ budget: { tokensPerDay: 300 } }'),
      },
      // The model that the example names must exist, or it would be reported as a problem.
      modeld: { models: { default: scripted, 'coder-large': scripted } },
    });
    const { agent } = await world.agentd.getAgent({ params: { name: 'coder' } });
    dir = dirname(agent.manifest_file!);
  });
  after(() => world.stop());

  const agentNow = async (name: string) =>
    (await world.agentd.getAgent({ params: { name } })).agent;
  /** Manifests are polled by the clock, which only the test advances. */
  const afterLook = <T>(what: string, look: () => Promise<T | undefined>) =>
    eventually(what, async () => {
      world.clock.advance(1_000);
      return look();
    });
  const liveRuns = async (agent: string) =>
    (await world.agentd.listRuns({ query: { limit: 100 } })).runs.filter(
      (run) => run.agent === agent && run.status === 'live',
    );

  it('[R39] [R42] [R277] [R434] [R188] [R189] [R190] [R192] [R193] [R197] [R198] loads the manifest of the source document unchanged', async () => {
    const { agent, manifest } = await world.agentd.getAgent({ params: { name: 'coder' } });
    assert.equal(agent.linux_user, 'agent-coder');
    assert.equal(agent.model, 'coder-large');
    assert.equal(agent.replicas, 2);
    assert.equal(agent.status, 'active');
    assert.deepEqual(agent.capabilities, [
      'git.read',
      'git.write_branch',
      'tests.run',
      'file.read',
      'file.write_workspace',
    ]);
    for (const tool of ['git.diff', 'git.commit', 'tests.run', 'file.read', 'file.write'])
      assert.ok(agent.tools.includes(tool), `${tool} follows from a capability`);
    for (const tool of ['secrets.read', 'prod.deploy', 'email.send_external', 'task.delegate'])
      assert.ok(!agent.tools.includes(tool), `${tool} was denied or never allowed`);
    assert.equal(agent.manifest_hash, createHash('sha256').update(EXAMPLE_MANIFEST).digest('hex'));
    const { spec } = manifest as { spec: Record<string, unknown> };
    assert.deepEqual(spec.filesystem, {
      read: ['/srv/repos/app', '/srv/docs'],
      write: ['/srv/workspaces/app'],
      deny: ['/etc', '/home', '/srv/prod'],
    });
    assert.deepEqual(spec.resources, { cpu: 2, memory: '4G', pids: 256 });
    assert.deepEqual((await world.agentd.listAgents({})).problems, []);
  });

  it('[R41] [R192] its agent works, with the model its manifest names', async () => {
    world.model.on('Say hello', finishes('hello'));
    const task = await doTask(world, 'Say hello', { agent: 'coder' });
    assert.equal(task.status, 'completed', JSON.stringify(task.error));
    assert.equal(task.result, 'hello');
    const { calls } = await world.modeld.listCalls({ query: { task_id: task.id } });
    assert.equal(calls[0]?.model, 'coder-large');
    assert.equal(calls[0]?.agent, 'coder');
  });

  it('[R92] [R198] its agent cannot use tools that the manifest denies or does not name', async () => {
    world.model.on(
      'Give the work away',
      says(call('task.delegate', { agent: 'writer', goal: 'You do it' })),
      ({ results }) => finishes(results.join(' ')),
    );
    const task = await doTask(world, 'Give the work away', { agent: 'coder' });
    assert.match(task.result ?? '', /There is no tool task_delegate/);
    assert.ok(
      !(await world.agentd.listTasks({ query: { agent: 'writer' } })).tasks.some(
        ({ goal }) => goal === 'You do it',
      ),
    );
  });

  it('[R43] [R193] [C148] works on at most one task per replica at a time', async () => {
    world.model.on('Take long', { hang: true });
    const tasks = await Promise.all(
      [1, 2, 3, 4].map((n) => create(world, `Take long ${n}`, { agent: 'coder' })),
    );
    await eventually('two at work', async () =>
      world.model.scenesFor('Take long').length === 2 ? true : undefined,
    );
    assert.equal((await liveRuns('coder')).length, 2);
    const { queue } = await world.agentd.status({});
    assert.deepEqual(queue.for_agents, [{ agent: 'coder', runs: 2, replicas: 2 }]);
    assert.equal(queue.for_machine, 0);
    assert.deepEqual((await agentNow('coder')).tasks, {
      ready: 2,
      working: 2,
      waiting: 0,
      ended: 2,
    });
    const working = (await liveRuns('coder')).map((run) => run.task_id);
    await world.agentd.cancelTask({ params: { id: working[0]! }, body: {} });
    await eventually('the third', async () =>
      world.model.scenesFor('Take long').length === 3 ? true : undefined,
    );
    assert.equal((await liveRuns('coder')).length, 2);
    for (const task of tasks)
      if ((await taskNow(world, task.id)).ended_at === null)
        await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
  });

  it('[R40] [R53] [R278] [R279] [R130] a paused agent finishes its tasks and starts no new ones until it is resumed', async () => {
    world.model.on('Go slowly', ({ step }) =>
      step === 0
        ? says(call('timer.wait', { after_s: 60 }), call('artifact.put', { name: 'a', text: 'b' }))
        : finishes('slow but done'),
    );
    const before = await create(world, 'Go slowly', { agent: 'writer' });
    await reaches(world, before.id, 'waiting');
    const queued = await create(world, 'Wait your turn', { agent: 'writer', after: [before.id] });
    const { agent } = await world.agentd.pauseAgent({ params: { name: 'writer' } });
    assert.equal(agent.status, 'paused');
    await refusedWith('agent_paused', create(world, 'Too late', { agent: 'writer' }));
    world.clock.advance(61_000);
    await eventually('the timer', async () =>
      (await taskNow(world, before.id)).status === 'ready' ? true : undefined,
    );
    assert.equal((await liveRuns('writer')).length, 0, 'nothing starts while it is paused');
    await world.agentd.resumeAgent({ params: { name: 'writer' } });
    assert.equal((await taskEnded(world, before.id)).result, 'slow but done');
    assert.equal((await taskEnded(world, queued.id)).status, 'completed');
  });

  it('[R40] [R129] [C137] stopping an agent ends its process immediately; its task continues after a resume', async () => {
    let isStopped = false;
    world.model.on('Work until stopped', () => (isStopped ? finishes('went on') : { hang: true }));
    const task = await create(world, 'Work until stopped', { agent: 'writer' });
    const scene = await eventually(
      'the model call',
      async () => world.model.scenesFor('Work until stopped')[0],
    );
    await world.agentd.stopAgent({ params: { name: 'writer' } });
    await scene.left;
    assert.equal((await liveRuns('writer')).length, 0);
    assert.equal((await taskNow(world, task.id)).status, 'ready');
    isStopped = true;
    await world.agentd.resumeAgent({ params: { name: 'writer' } });
    const ended = await taskEnded(world, task.id);
    assert.equal(ended.result, 'went on');
    const { runs } = await world.agentd.listRuns({ query: { task_id: task.id } });
    assert.deepEqual(
      runs.map(({ activations, crashes }) => [activations, crashes]),
      [[2, 0]],
      'one run, woken again, no crash',
    );
  });

  it('[R39] a changed manifest applies from the next task on, and its hash is recorded', async () => {
    const file = join(dir, 'writer.yaml');
    const changed = readFileSync(file, 'utf8').replace('persona: Writes.', 'persona: Writes odes.');
    writeFileSync(file, changed);
    const hash = createHash('sha256').update(changed).digest('hex');
    await afterLook('the new manifest', async () =>
      (await agentNow('writer')).manifest_hash === hash ? true : undefined,
    );
    await doTask(world, 'Sing', { agent: 'writer' });
    const [scene] = world.model.scenesFor('Sing');
    assert.match(String(scene?.messages[0]?.content), /Writes odes\./);
    const event = await eventually('the event', async () =>
      (
        await world.audit.agent({ params: { agent: 'writer' }, query: { limit: 500 } })
      ).events.findLast(({ event }) => event === 'agent.changed'),
    );
    assert.equal(event.data?.manifest_sha256, hash);
  });

  it('[R39] an invalid change is reported with line and hint, and the old manifest stays in effect', async () => {
    const file = join(dir, 'writer.yaml');
    const good = readFileSync(file, 'utf8');
    writeFileSync(file, good.replace('limits:', 'limitz:'));
    const problem = await afterLook(
      'the problem',
      async () => (await world.agentd.listAgents({})).problems[0],
    );
    assert.equal(problem.file, file);
    assert.equal(problem.line, 4);
    assert.match(problem.hint, /limits/);
    assert.equal((await agentNow('writer')).status, 'active');
    assert.equal((await doTask(world, 'Sing on', { agent: 'writer' })).status, 'completed');
    writeFileSync(file, good);
    await afterLook('no problem', async () =>
      (await world.agentd.listAgents({})).problems.length === 0 ? true : undefined,
    );
  });

  it('[R43] [K58] [K63] a manifest’s step and time limits apply to its tasks', async () => {
    world.model.on('Never come to an end', ({ step }) =>
      says(call('artifact.put', { name: `n${step}`, text: `${step}` })),
    );
    const steps = await doTask(world, 'Never come to an end', { agent: 'writer' });
    assert.equal(steps.error?.code, 'limit');
    assert.match(steps.error?.message ?? '', /2 steps/);
    world.model.on('Think for ever', { hang: true });
    const time = await create(world, 'Think for ever', { agent: 'writer' });
    await eventually('the model call', async () =>
      world.model.scenesFor('Think for ever').length > 0 ? true : undefined,
    );
    world.clock.advance(91_000);
    const ended = await taskEnded(world, time.id);
    assert.equal(ended.error?.code, 'limit');
    assert.match(ended.error?.message ?? '', /time limit/);
    const logged = await eventually('its end in the log', async () => {
      const params = { agent: 'writer' };
      const { events } = await world.audit.agent({ params, query: { limit: 500 } });
      const own = events.filter(({ task_id }) => task_id === time.id);
      return own.some(({ event }) => event === 'run.ended') ? own : undefined;
    });
    assert.ok(logged.some(({ event }) => event === 'run.started'));
    const end = logged.find(({ event }) => event === 'task.ended');
    assert.deepEqual([end?.status, end?.data?.error], ['failed', 'limit']);
  });

  it('[R43] [R100] a manifest’s daily budget is enforced, and the error names it', async () => {
    assert.equal((await agentNow('thrifty')).budget.tokens_per_day, 300);
    const task = await doTask(world, 'Spend', { agent: 'thrifty' });
    assert.equal(task.status, 'failed');
    assert.equal(task.error?.code, 'budget');
    assert.match(task.error?.message ?? '', /budget of agent thrifty has \d+ tokens left of 300/);
    assert.match(task.error?.message ?? '', /agentctl model budget agent thrifty --tokens/);
  });

  it('[K20] [R40] a removed agent is not listed and gets no tasks; its record stays', async () => {
    const { agent } = await world.agentd.removeAgent({ params: { name: 'thrifty' } });
    assert.equal(agent.status, 'removed');
    const { agents } = await world.agentd.listAgents({});
    assert.ok(!agents.some(({ name }) => name === 'thrifty'));
    await refusedWith('not_found', create(world, 'Anybody there', { agent: 'thrifty' }));
    rmSync(join(dir, 'thrifty.yaml'), { force: true });
    const { events } = await world.audit.agent({
      params: { agent: 'thrifty' },
      query: { limit: 500 },
    });
    assert.ok(events.some(({ event }) => event === 'agent.loaded'));
  });
});
