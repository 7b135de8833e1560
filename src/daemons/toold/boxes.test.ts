// The box of a run, from the broker's side: opened once, and never after the run was dismissed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { derivedId } from '../../platform/ids.ts';
import { silentLog } from '../../platform/log.ts';
import type { BoxRules } from '../../policy/box-rules.ts';
import type { BoxId, CallId, RunId } from '../../wire/words.ts';
import { makeBoxes } from './boxes.ts';
import type { Run } from './runs.ts';

const RULES: BoxRules = {
  ...{ read: [], write: [], deny: [], workspace: '/workspace', home: '/home/coder', version: 1 },
  network: { mode: 'none', allow: [], granted: [] },
  resources: { cpu: null, memoryBytes: null, pids: null },
};
const run = {
  ...{ runId: derivedId<RunId>('run', 'one'), fence: 1, agent: 'coder', workspace: null },
  labels: new Set(),
} as unknown as Run;

function makeWorld() {
  const open = new Set<string>();
  const asked = Promise.withResolvers<BoxRules>();
  const sandboxd = {
    async openBox({ params }: { params: { id: string } }) {
      open.add(params.id);
      return { workspace: '/workspace', home: '/home/coder', missing: [] };
    },
    async closeBox({ params }: { params: { id: string } }) {
      open.delete(params.id);
    },
  };
  const boxes = makeBoxes({
    sandboxd: sandboxd as never,
    egressd: {} as never,
    policy: { boxRulesOf: () => asked.promise },
    grants: { of: async () => [] },
    newBoxId: () => derivedId<BoxId>('box', 'one'),
    ...{ egressBytesMax: 1, log: silentLog },
  });
  return { open, boxes, answer: () => asked.resolve(RULES) };
}
const callId = derivedId<CallId>('call', 'one');

test('a box that is wanted when its run is dismissed is not opened', async () => {
  const { open, boxes, answer } = makeWorld();
  const dismissal = new AbortController();
  const wanted = boxes.of(run, { callId, signal: dismissal.signal });
  dismissal.abort();
  await boxes.close(run);
  answer();
  await assert.rejects(wanted, { code: 'canceled' });
  assert.deepEqual([...open], []);
});

test('one that is being opened then is closed', async () => {
  const { open, boxes, answer } = makeWorld();
  const wanted = boxes.of(run, { callId, signal: new AbortController().signal });
  answer();
  await wanted;
  assert.equal(open.size, 1);
  await boxes.close(run);
  assert.deepEqual([...open], []);
});
