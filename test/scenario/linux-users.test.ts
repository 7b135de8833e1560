// sandboxd.identity users: an agent is the account that its manifest names, in its runner and in
// its tools, and one that cannot be had is refused with the reason.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { doTask, scriptedModels } from '../support/scripted-world.ts';

const IS_ROOT = process.getuid?.() === 0;
/** An account that every host has; the range is laid around it. */
const NOBODY = 65_534;

const agent = (name: string, linuxUser: string) => `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name}, description: Works. }
spec:
  linuxUser: ${linuxUser}
  tools: { allow: [shell.exec] }
`;

describe('accounts of the host', { skip: IS_ROOT ? false : 'needs root' }, () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: { worker: agent('worker', 'nobody'), lost: agent('lost', 'no-such-account') },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        agentd: { crashes_max: 0 },
        sandboxd: { identity: 'users', uid_first: 65_000, uid_last: 65_540 },
      }),
    });
  });
  after(async () => {
    await runtime?.remove();
    await model?.close();
  });

  it('[R191] an agent is the account its manifest names, in its runner and in its tools', async () => {
    model.on('Who', says(call('shell.exec', { command: 'id -u; id -un' })), finishes('seen'));
    const task = await doTask(runtime, 'Who am I', { agent: 'worker' });
    assert.equal(task.status, 'completed');
    const { boxes } = await runtime.sandboxd.listBoxes({ query: { limit: 100 } });
    const own = boxes.filter((box) => box.agent === 'worker');
    assert.deepEqual([...new Set(own.map(({ kind }) => kind))].sort(), ['runner', 'tools']);
    assert.ok(own.every(({ uid }) => uid === NOBODY));
    const { calls } = await runtime.toold.listCalls({ query: { task_id: task.id, limit: 50 } });
    assert.match(JSON.stringify(calls), /65534.{1,4}nobody/);
  });

  it('one that does not exist is refused, and the task says why', async () => {
    const task = await doTask(runtime, 'Nothing', { agent: 'lost' });
    assert.equal(task.status, 'failed');
    assert.match(JSON.stringify(task), /no account no-such-account/);
  });
});
