// A directory with an ask rule: no command in a real box reaches it; the call that names it does,
// once a person has approved.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import {
  callSocket,
  callTool,
  type IdleWorld,
  type LiveRun,
  runSocketOf,
  startIdleWorld,
} from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';
import { manifestOf } from '../support/scripted-world.ts';

const RULE = `@ask("it changes how everything is built")
forbid (principal, action == Action::"file.write", resource in Path::"/workspace/ci");
`;
const SPEC = '{ replicas: 9, tools: { allow: [file.read, file.write_workspace, shell.exec] } }';

describe('a path with an ask rule', () => {
  let world: IdleWorld;
  let free: IdleWorld;
  before(async () => {
    const agents = { worker: manifestOf('worker', SPEC) };
    world = await startIdleWorld({ agents, policies: { '10-ci.cedar': RULE } });
    free = await startIdleWorld({ agents });
  });
  after(async () => {
    await world.stop();
    await free.stop();
  });

  let step = 0;
  const useTool = async (
    on: IdleWorld,
    run: LiveRun,
    tool: string,
    args: object,
    callId?: string,
  ) => {
    const body = { call_id: callId ?? run.callId(step++), tool, arguments: args };
    return callTool(on, run, body);
  };
  const sh = async (on: IdleWorld, run: LiveRun, command: string) =>
    (await useTool(on, run, 'shell.exec', { command })).result;
  const attempt = 'mkdir -p ci && echo evil > ci/build; cat ci/build';

  /** The run parks on it, a person approves, the next activation repeats the call. */
  async function agreed(run: LiveRun, tool: string, args: object) {
    const callId = run.callId(step++);
    const first = await useTool(world, run, tool, args, callId);
    assert.deepEqual([first.status, first.wait?.kind], ['waiting', 'approval']);
    const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
    const params = { id: approvals.find(({ task_id }) => task_id === run.taskId)!.id };
    const path = runSocketOf(world, 'agentd', run);
    const parked = await callSocket(path, agentdRoutes.runPark, { body: { call_ids: [callId] } });
    assert.ok(parked.ok, JSON.stringify(parked));
    await makeReviewer(world.approvald).approve({ params, body: { for: 'once' } });
    const next = await eventually('the run to be woken', async () => {
      const { run: now } = await world.agentd.getRun({ params: { id: run.id } });
      const woken = { ...run, fence: now.fence };
      const isUp = now.status === 'live' && now.fence > run.fence;
      return isUp && existsSync(runSocketOf(world, 'toold', woken)) ? woken : undefined;
    });
    return { run: next, answer: await useTool(world, next, tool, args, callId) };
  }

  it('control: without the rule, a command writes there', async () => {
    const run = await free.startRun();
    assert.equal((await sh(free, run, attempt))?.stdout, 'evil\n');
  });

  it('no command writes there, whether it exists or not', async () => {
    const run = await world.startRun();
    const tried = await sh(world, run, attempt);
    assert.notEqual(tried?.exit_code, 0);
    assert.doesNotMatch(String(tried?.stdout), /evil/);
    assert.equal((await sh(world, run, 'echo good > other; cat other'))?.stdout, 'good\n');
  });

  it('a call that names it needs approval, is made once approved, and opens the path to no other call', async () => {
    const first = await world.startRun();
    const args = { path: 'ci/build', text: 'good\n' };
    const { run, answer } = await agreed(first, 'file.write', args);
    assert.equal(answer.status, 'completed', JSON.stringify(answer));
    const read = await useTool(world, run, 'file.read', { path: 'ci/build' });
    assert.equal(read.result?.text, 'good\n', 'reading needs no approval');
    const tried = await sh(world, run, 'echo evil >> ci/build; cat ci/build');
    assert.doesNotMatch(String(tried?.stdout), /good|evil/);
    assert.equal(
      (await useTool(world, run, 'file.read', { path: 'ci/build' })).result?.text,
      'good\n',
    );
    const there = { command: 'cat build; echo more >> build', cwd: 'ci' };
    const { run: last, answer: ran } = await agreed(run, 'shell.exec', there);
    assert.equal(ran.result?.stdout, 'good\n', JSON.stringify(ran));
    const now = await useTool(world, last, 'file.read', { path: 'ci/build' });
    assert.equal(now.result?.text, 'good\nmore\n');
  });
});
