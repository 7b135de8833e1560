// Shortened ids: completed where one id begins so, refused with the candidates where several do.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { HandlerContext } from '../../platform/dispatch.ts';
import { findShortId } from './check-ids.ts';
import { type FakeRuntime, startFake } from './testing/fake-runtime.ts';
import { task } from './testing/fixtures.ts';
import { agentctl } from './testing/run-agentctl.ts';

const ONE = `task_01ab${'0'.repeat(22)}`;
const TWO = `task_01cd1${'0'.repeat(21)}`;
const THREE = `task_01cd2${'0'.repeat(21)}`;
let runtime: FakeRuntime;
before(async () => {
  const findIds = async ({ params }: HandlerContext) => ({
    ids: [ONE, TWO, THREE].filter((id) => id.startsWith((params as { prefix: string }).prefix)),
  });
  const getTask = async () => ({ task: task(1) });
  runtime = await startFake({ agentd: { findIds, cancelTask: getTask } as never });
});
after(() => runtime.stop());
const run = (...args: string[]) => agentctl(args, { state: runtime.stateDir });
const canceled = () =>
  runtime.seen.findLast(({ route }) => route === 'cancelTask')?.params as { id: string };

for (const text of ['task_01ab', '01ab', 'task_01ab…', '01ab00000'])
  test(`${text} is completed`, async () => {
    const ran = await run('task', 'cancel', text);
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal(canceled().id, ONE);
  });

test('the beginning of several ids is refused with the candidates, that of none is not found', async () => {
  const before = runtime.seen.length;
  const several = await run('task', 'cancel', '01cd', '--json');
  assert.equal(several.code, 2);
  const { error } = JSON.parse(several.stderr) as { error: { details: object; message: string } };
  assert.deepEqual(error.details, { candidates: [TWO, THREE] });
  const none = await run('task', 'cancel', '01ef');
  assert.equal(none.code, 5);
  assert.match(none.stderr, /no id of a task begins with task_01ef \(not_found\)\n.*task list/);
  assert.ok(runtime.seen.slice(before).every(({ route }) => route === 'findIds'));
});

test('whole ids ask nobody', async () => {
  const before = runtime.seen.length;
  await run('task', 'cancel', TWO);
  assert.deepEqual(
    runtime.seen.slice(before).map(({ route }) => route),
    ['cancelTask'],
  );
});

test('other words are no ids', () => {
  for (const text of ['list', '01a', 'task_', 'approval_01ab', 'TASK_01AB', '', 'task_01ab.x'])
    assert.equal(findShortId(text, 'task'), undefined, text);
  assert.deepEqual(findShortId('call_10ab.ended', 'event')?.prefix, 'call_10ab');
  assert.deepEqual(findShortId('box_10ab….opened', 'event')?.prefix, 'box_10ab');
  assert.deepEqual(findShortId('msg_10ab.sent', 'event')?.known.daemons, ['agentd']);
  for (const text of ['1234', 'nothing_10ab.ended', 'task_10ab'])
    assert.equal(findShortId(text, 'event'), undefined, text);
  assert.equal(findShortId('01ab', 'agent'), undefined);
});
