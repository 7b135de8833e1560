// The start of an activation: its runner is told to begin while its briefing is still being
// recorded, gets that only once it is, and is ended where it cannot be.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ActivationDeps, makeActivations } from './activations.ts';
import type { Claim } from './store/runs.ts';

const CLAIM = {
  run: { id: 'run_1', fence: 1, agent: 'coder', briefing: null },
  task: {
    id: 'task_1',
    root_task_id: 'task_1',
    labels: '[]',
    limits: '{}',
    goal: 'Do it',
    expires_ms: null,
  },
  persona: '',
} as unknown as Claim;

const SPEC = { tools: [], team: { delegateTo: null }, manifest: { spec: {} }, model: 'm' };
const VIEW = { inputs: [], after: [], labels: [] };

function start(recalled: Promise<unknown>) {
  const seen: string[] = [];
  const process = {
    sockets: {},
    sendLine: async () => void seen.push('told to begin'),
    kill: async (reason: string) => void seen.push(`killed: ${reason}`),
  };
  const store = {
    agent: async () => ({ spec: SPEC }),
    agents: async () => [],
    task: async () => VIEW,
    ancestry: async () => [],
    restoredTree: async () => undefined,
    saveBriefing: async (_: string, { memory }: { memory: unknown }) =>
      void seen.push(`recorded ${JSON.stringify(memory)}`),
  };
  const daemon = {
    admitRun: async () => ({}),
    dismissRun: async () => void seen.push('dismissed'),
    listModels: async () => ({ models: [] }),
    listTools: async () => ({ tools: [] }),
  };
  const activations = makeActivations({
    store,
    config: { limits: { max_steps: 1 } },
    log: { warn: () => undefined, info: () => undefined },
    toold: daemon,
    modeld: daemon,
    runSockets: { open: async () => undefined, close: async () => undefined },
    launcher: { start: async () => process },
    limitsFor: async () => ({}),
    failpoint: () => undefined,
    recallMemories: () => recalled,
    readMemoryInputs: async () => new Map(),
    matchSkills: () => [],
  } as unknown as ActivationDeps);
  const ended = activations.start(CLAIM).then(
    () => 'started',
    (error: Error) => error.message,
  );
  return { activations, seen, ended };
}

test('a runner begins while memory is asked, and waits for its briefing', async () => {
  const recalled = Promise.withResolvers<unknown>();
  const { activations, seen, ended } = start(recalled.promise);
  let isBriefed = false;
  const briefed = activations.waitUntilBriefed('run_1').then(() => {
    isBriefed = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual([seen, isBriefed], [['told to begin'], false]);
  recalled.resolve('known');
  assert.equal(await ended, 'started');
  await briefed;
  assert.deepEqual(seen, ['told to begin', 'recorded "known"']);
  await activations.waitUntilBriefed('run_of_another');
});

test('a run whose briefing cannot be recorded is ended, with the reason', async () => {
  const { activations, seen, ended } = start(Promise.reject(new Error('no artifact')));
  assert.equal(await ended, 'no artifact');
  assert.equal(activations.liveCount(), 0);
  assert.equal(seen.at(-1), 'killed: it could not be prepared');
  await activations.waitUntilBriefed('run_1');
});
