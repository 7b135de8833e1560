// The box of a run, from the broker's side: opened once, and never after the run was dismissed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { derivedId } from '../../platform/ids.ts';
import { silentLog } from '../../platform/log.ts';
import type { BoxRules, DeclaredRules } from '../../policy/box-rules.ts';
import type { BoxId, CallId, RunId } from '../../wire/words.ts';
import { makeBoxes } from './boxes.ts';
import type { PlaceRequest } from './command-tools/make.ts';
import type { Run } from './runs.ts';

const RULES: BoxRules = {
  ...{ read: [], write: [], deny: [], workspace: '/workspace', home: '/home/coder', version: 1 },
  network: { mode: 'none', allow: [], granted: [] },
  resources: { cpu: null, memoryBytes: null, pids: null },
};
const ENDED = {
  ...{ exit_code: 0, signal: null, ended_by: null },
  usage: { wall_ms: 1, cpu_ms: 1, memory_peak_bytes: 1, stdout_bytes: 0, stderr_bytes: 0 },
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
    policy: { boxRulesOf: () => asked.promise, declaredRulesOf: async () => ({ deny: [] }) },
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

test('a command on the host sees nothing that a rule closes, and does not run where one closes all', async () => {
  const ran: unknown[] = [];
  const sandboxd = {
    async runOnce({ body }: { body: { rules: object } }) {
      ran.push(body.rules);
      return { ...ENDED, stdout_base64: '', stderr_base64: '' };
    },
  };
  let rules: DeclaredRules = { deny: ['/srv/app/keys'] };
  const boxes = makeBoxes({
    ...{ sandboxd: sandboxd as never, egressd: {} as never, grants: { of: async () => [] } },
    policy: { boxRulesOf: async () => RULES, declaredRulesOf: async () => rules },
    newBoxId: () => derivedId<BoxId>('box', 'one'),
    ...{ egressBytesMax: 1, log: silentLog },
  });
  const paths = { read: ['/srv/app'], write: ['/srv/log'] };
  const request: PlaceRequest = {
    ...{ argv: ['/bin/true'], cwd: '/', env: {}, ...paths, wallMs: 1_000, outputBytesMax: 1_000 },
    ...{ level: 'L2', network: 'none', signal: new AbortController().signal },
  };
  const context = { ...run, callId } as never;
  await boxes.host.run(context, request);
  assert.deepEqual(ran, [{ ...paths, deny: ['/srv/app/keys'] }]);
  rules = { refused: 'a rule closes /srv/app to file.read' };
  await assert.rejects(boxes.host.run(context, request), {
    code: 'denied',
    message: /closes \/srv\/app/,
  });
  assert.equal(ran.length, 1);
});
