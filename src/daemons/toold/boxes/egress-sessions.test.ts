// A run's egress session: closed with the run even if egressd was down just then, and adopted after
// a restart of toold.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import { silentLog } from '../../../platform/log.ts';
import type { AgentBoxRules } from '../../../policy/box-rules.ts';
import type { PutEgressBody } from '../../../wire/egressd.ts';
import { fault } from '../../../wire/errors.ts';
import type { RunId } from '../../../wire/primitives.ts';
import type { ToolRun } from '../runs.ts';
import { makeEgressSessions } from './egress-sessions.ts';

const runOf = (name: string, fence = 1) =>
  ({
    runId: deriveId<RunId>('run', name),
    fence,
    labels: new Set(),
    chosenHosts: [],
  }) as unknown as ToolRun;
const RULES = { network: { mode: 'none', allow: [], granted: [] } } as unknown as AgentBoxRules;

function makePeers() {
  const open = new Map<string, number>();
  const rules: unknown[] = [];
  const failures: Error[] = [];
  const orFail = () => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
  };
  const egressd = {
    async putEgress({ params, body }: { params: { id: string }; body: PutEgressBody }) {
      open.set(params.id, body.fence);
      rules.push(...body.allow, ...body.granted);
      return { socket: 'here', cut: 0 };
    },
    async dropEgress({ params, query }: { params: { id: string }; query: { fence: number } }) {
      orFail();
      if ((open.get(params.id) ?? Infinity) <= query.fence) open.delete(params.id);
      return { dropped: true };
    },
    async listEgress() {
      orFail();
      return { egress: [...open].map(([run_id, fence]) => ({ run_id, fence })) };
    },
  };
  const makeSessions = () =>
    makeEgressSessions({ egressd: egressd as never, bytesMax: 1, log: silentLog });
  return { open, rules, failures, makeSessions };
}

test('it is closed as soon as egressd is back', async () => {
  const { open, failures, makeSessions } = makePeers();
  const sessions = makeSessions();
  await sessions.open(runOf('one'), RULES);
  failures.push(fault('unavailable', 'down'), fault('unavailable', 'still down'));
  await sessions.close(runOf('one'));
  assert.deepEqual([failures.length, open.size], [0, 0]);
});

test('closing one that was never opened sends no request', async () => {
  const { failures, makeSessions } = makePeers();
  failures.push(fault('internal', 'must not be called'));
  await makeSessions().close(runOf('one'));
  assert.equal(failures.length, 1);
});

test('after a restart, sessions of live runs are closed with their run, the others at once', async () => {
  const { open, failures, makeSessions } = makePeers();
  const before = makeSessions();
  for (const run of [runOf('live'), runOf('over'), runOf('woken', 2)])
    await before.open(run, RULES);
  const live = [runOf('live'), runOf('woken', 3)];
  const after = makeSessions();
  failures.push(fault('unavailable', 'down'));
  await after.reconcile((runId) => live.find((run) => run.runId === runId));
  assert.deepEqual([...open.keys()], [runOf('live').runId]);
  assert.deepEqual([after.has(runOf('live')), after.has(runOf('woken'))], [true, false]);
  await after.close(runOf('live'));
  assert.equal(open.size, 0);
});

test('marks narrow every host but those that a person chose', async () => {
  const { rules, makeSessions } = makePeers();
  const at = (host: string) => ({ host, port: 443 });
  const run = {
    ...runOf('marked'),
    labels: new Set(['outside']),
    chosenHosts: [at('chosen.test')],
  } as unknown as ToolRun;
  const network = { allow: [at('listed.test')], granted: [at('asked.test'), at('chosen.test')] };
  await makeSessions().open(run, { network } as unknown as AgentBoxRules);
  const methods = ['GET', 'HEAD'];
  assert.deepEqual(rules, [
    { ...at('listed.test'), methods },
    { ...at('asked.test'), methods },
    { ...at('chosen.test'), chosen: true },
  ]);
});
