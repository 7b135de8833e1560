// task list prints a hint when there is nothing to list.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fault } from '../../../wire/errors.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { agent } from '../testing/fixtures.ts';
import { agentctl } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });

test('list of an unknown agent says so, not that it has no tasks', async () => {
  const listTasks = async () => ({ tasks: [], cursor: null });
  const getAgent = async () => Promise.reject(fault('not_found', 'agent codr'));
  fake.script({ agentd: { listTasks, getAgent } });
  assert.equal((await run('task', 'list', '--agent', 'codr')).code, 5);
  fake.script({
    agentd: { listTasks, getAgent: async () => ({ agent: agent('coder'), manifest: {} }) },
  });
  assert.equal((await run('task', 'list', '--agent', 'coder')).stdout, 'No tasks.\n');
  assert.equal((await run('task', 'list')).stdout, 'No tasks.\n');
});
