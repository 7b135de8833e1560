// A run's box, from toold's side: opened once, and never after the run was dismissed.
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { deriveId } from '../../../platform/ids.ts';
import { silentLog } from '../../../platform/log.ts';
import type { AgentBoxRules, DeclaredRules } from '../../../policy/box-rules.ts';
import { fault } from '../../../wire/errors.ts';
import type { BoxId, CallId, RunId } from '../../../wire/primitives.ts';
import { BOX_NOT_OPEN, type OpenBoxBody } from '../../../wire/sandboxd.ts';
import type { HostCommand } from '../command-tools/make.ts';
import type { ToolRun } from '../runs.ts';
import { toExecOutput } from '../tools/box.ts';
import { makeRunBoxes } from './run-boxes.ts';

const RULES: AgentBoxRules = {
  read: [],
  write: [],
  deny: [],
  asked: [],
  opened: [],
  workspace: '/workspace',
  home: '/home/coder',
  version: 1,
  network: { mode: 'none', allow: [], granted: [] },
  resources: { cpu: null, memoryBytes: null, pids: null, diskBytes: null },
};
const ENDED = {
  exit_code: 0,
  signal: null,
  ended_by: null,
  usage: { wall_ms: 1, cpu_ms: 1, memory_peak_bytes: 1, stdout_bytes: 0, stderr_bytes: 0 },
};
const run = {
  runId: deriveId<RunId>('run', 'one'),
  fence: 1,
  agent: 'coder',
  workspace: null,
  isLayered: false,
  labels: new Set(),
  chosenHosts: [],
} as unknown as ToolRun;

function makePeers() {
  const open = new Set<string>();
  const bodies: Partial<OpenBoxBody>[] = [];
  const rules = Promise.withResolvers<AgentBoxRules>();
  const sandboxd = {
    async openBox({ params, body }: { params: { id: string }; body: OpenBoxBody }) {
      open.add(params.id);
      bodies.push(body);
      return { workspace: '/workspace', home: '/home/coder', missing: [] };
    },
    async closeBox({ params }: { params: { id: string } }) {
      open.delete(params.id);
    },
  };
  const boxes = makeRunBoxes({
    sandboxd: sandboxd as never,
    egressd: {} as never,
    ways: { close: async () => undefined } as never,
    policy: { planAgentBox: () => rules.promise, planDeclaredPaths: async () => ({ deny: [] }) },
    grants: { hostsFor: async () => [] },
    markProgram: async () => undefined,
    newBoxId: () => deriveId<BoxId>('box', 'one'),
    runOf: () => run,
    clock: manualClock(0),
    log: silentLog,
  });
  return { open, bodies, boxes, answer: () => rules.resolve(RULES) };
}
const callId = deriveId<CallId>('call', 'one');

test('a box requested while its run is dismissed is not opened', async () => {
  const { open, boxes, answer } = makePeers();
  const dismissal = new AbortController();
  const wanted = boxes.boxFor(run, { callId, signal: dismissal.signal, touched: [] });
  dismissal.abort();
  await boxes.close(run);
  answer();
  await assert.rejects(wanted, { code: 'canceled' });
  assert.deepEqual([...open], []);
});

test('one that is being opened then is closed', async () => {
  const { open, boxes, answer } = makePeers();
  const wanted = boxes.boxFor(run, { callId, signal: new AbortController().signal, touched: [] });
  answer();
  await wanted;
  assert.equal(open.size, 1);
  await boxes.close(run);
  assert.deepEqual([...open], []);
});

test('the directory of the run is opened in its mode', async () => {
  const directory = { workspace: '/srv/w', isLayered: true, layers: [] };
  for (const [more, expected] of [
    [{}, { workspace_path: undefined, workspace_mode: undefined }],
    [directory, { workspace_path: '/srv/w', workspace_mode: 'layer' }],
    [
      { ...directory, isLayered: false },
      { workspace_path: '/srv/w', workspace_mode: 'live' },
    ],
  ] as const) {
    const { bodies, boxes, answer } = makePeers();
    answer();
    const { signal } = new AbortController();
    await boxes.boxFor({ ...run, ...more }, { callId, signal, touched: [] });
    const { workspace_path, workspace_mode } = bodies[0]!;
    assert.deepEqual({ workspace_path, workspace_mode }, expected);
  }
});

describe('a fault from sandboxd', () => {
  /** A box whose file requests all fail with this fault. */
  const boxThatFails = (error: Error) => {
    let count = 0;
    const sandboxd = {
      async openBox() {
        count++;
        return { workspace: '/workspace', home: '/home/coder', missing: [] };
      },
      async boxFiles() {
        throw error;
      },
    };
    const boxes = makeRunBoxes({
      sandboxd: sandboxd as never,
      egressd: {} as never,
      ways: {} as never,
      grants: { hostsFor: async () => [] },
      markProgram: async () => undefined,
      policy: { planAgentBox: async () => RULES, planDeclaredPaths: async () => ({ deny: [] }) },
      newBoxId: () => deriveId<BoxId>('box', count),
      runOf: () => run,
      clock: manualClock(0),
      log: silentLog,
    });
    const readFile = async () => {
      const { signal } = new AbortController();
      const { files } = await boxes.boxFor(run, { callId, signal, touched: [] });
      return files.perform({ op: 'stat', path: '/workspace/x' });
    };
    return { readFile, opened: () => count };
  };

  it('about a closed box opens another one with the next call', async () => {
    const closed = fault('not_found', 'gone', { details: { reason: BOX_NOT_OPEN } });
    const { readFile, opened } = boxThatFails(closed);
    await assert.rejects(readFile(), { code: 'unavailable', cause: closed });
    await assert.rejects(readFile(), { code: 'unavailable' });
    assert.equal(opened(), 2);
  });

  it("about a missing file does not, whatever the file's name", async () => {
    const missing = fault('not_found', '/workspace/there is no open box does not exist', {
      details: { reason: 'not_found' },
    });
    const { readFile, opened } = boxThatFails(missing);
    await assert.rejects(readFile(), missing);
    await assert.rejects(readFile(), missing);
    assert.equal(opened(), 1);
  });
});

test('a command on the host sees no path that a rule denies, and does not run where all are denied', async () => {
  const ran: unknown[] = [];
  const sandboxd = {
    async runOnce({ body }: { body: { rules: object } }) {
      ran.push(body.rules);
      return { ...ENDED, stdout_base64: '', stderr_base64: '' };
    },
  };
  let rules: DeclaredRules = { deny: ['/srv/app/keys'] };
  const boxes = makeRunBoxes({
    sandboxd: sandboxd as never,
    egressd: {} as never,
    ways: {} as never,
    grants: { hostsFor: async () => [] },
    markProgram: async () => undefined,
    policy: { planAgentBox: async () => RULES, planDeclaredPaths: async () => rules },
    newBoxId: () => deriveId<BoxId>('box', 'one'),
    runOf: () => run,
    clock: manualClock(0),
    log: silentLog,
  });
  const paths = { read: ['/srv/app'], write: ['/srv/log'] };
  const request: HostCommand = {
    argv: ['/bin/true'],
    cwd: '/',
    env: {},
    ...paths,
    wallMs: 1_000,
    outputBytesMax: 1_000,
    liveAs: 'a.tool',
    level: 'L2',
    hasNetwork: false,
    signal: new AbortController().signal,
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

describe('while a command runs', () => {
  /** A sandboxd whose commands run until their box is closed. */
  const start = () => {
    const clock = manualClock(0);
    const world = { rules: { ...RULES, write: ['/workspace'] } as AgentBoxRules, boxes: 0, put: 0 };
    const open = new Map<string, PromiseWithResolvers<void>>();
    const sandboxd = {
      async openBox({ params }: { params: { id: string } }) {
        open.set(params.id, Promise.withResolvers());
        return { workspace: '/workspace', home: '/home/coder', missing: [] };
      },
      async closeBox({ params }: { params: { id: string } }) {
        open.get(params.id)?.resolve();
        open.delete(params.id);
      },
      async execBox({ params }: { params: { id: string } }) {
        await open.get(params.id)!.promise;
        return { ...ENDED, ended_by: 'box', exit_code: null, stdout_base64: '', stderr_base64: '' };
      },
    };
    const egressd = { getEgress: async () => ({ egress: { denials: [] } }) };
    const ways = {
      async open() {
        world.put++;
        return '/x';
      },
      has: () => true,
      close: async () => undefined,
    };
    const boxes = makeRunBoxes({
      sandboxd: sandboxd as never,
      egressd: egressd as never,
      clock,
      log: silentLog,
      grants: { hostsFor: async () => [] },
      markProgram: async () => undefined,
      ways,
      policy: {
        planAgentBox: async () => world.rules,
        planDeclaredPaths: async () => ({ deny: [] }),
      },
      newBoxId: () => deriveId<BoxId>('box', world.boxes++),
      runOf: () => run,
    });
    const box = () =>
      boxes.boxFor(run, { callId, signal: new AbortController().signal, touched: [] });
    const pass = async () => {
      for (let i = 0; i < 8; i++) {
        clock.advance(125);
        for (let turn = 0; turn < 20; turn++) await new Promise((go) => setImmediate(go));
      }
    };
    return { world, open, boxes, box, pass };
  };

  it('it is ended within a second when policy denies what its box was opened with', async () => {
    const { world, open, box, pass } = start();
    const running = (await box()).exec({ argv: ['/bin/sleep', '60'] });
    await pass();
    assert.equal(open.size, 1, 'control: nothing has changed');
    world.rules = { ...world.rules, deny: ['/workspace/secret'], version: 2 };
    await pass();
    const done = await running;
    assert.deepEqual([done.endedBy, done.exitCode], ['policy', null]);
    assert.match(String(toExecOutput(done).ended), /because the policy changed/);
    assert.equal(open.size, 0);
    await box();
    assert.deepEqual([open.size, world.boxes], [1, 2], 'the next call opens another');
  });

  it('it goes on when policy allows more, or the same in a new version', async () => {
    const { world, open, boxes, box, pass } = start();
    const first = (await box()).exec({ argv: ['/bin/sleep', '60'] });
    world.rules = { ...world.rules, version: 2 };
    await box();
    assert.equal(world.boxes, 1, 'a new version with the same rules changes nothing');
    world.rules = { ...world.rules, write: ['/workspace', '/srv/app'], version: 3 };
    await pass();
    await box();
    assert.equal(open.size, 2, 'the next call has a box of its own');
    await boxes.close(run);
    assert.equal((await first).endedBy, 'box');
    assert.equal(open.size, 0, 'both are closed with the run');
  });

  it('its egress session is narrowed without ending it', async () => {
    const { world, open, boxes, box, pass } = start();
    const hosts = [{ host: 'a.org', port: 443 }];
    world.rules = { ...world.rules, network: { mode: 'restricted', allow: hosts, granted: [] } };
    const running = (await box()).exec({ argv: ['/bin/sleep', '60'] });
    await pass();
    assert.equal(world.put, 1);
    world.rules = { ...world.rules, network: { mode: 'none', allow: [], granted: [] }, version: 2 };
    await pass();
    assert.deepEqual([world.put, open.size], [2, 1]);
    world.put = 0;
    await pass();
    assert.equal(world.put, 0, 'once is enough');
    await boxes.close(run);
    await running;
  });
});
