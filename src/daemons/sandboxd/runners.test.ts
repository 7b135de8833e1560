// Tests runners and tool boxes with a fake warden: their plans, their records, and that nothing
// runs without a caller or a record.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { systemClock } from '../../platform/clock.ts';
import { makeIdMaker } from '../../platform/ids.ts';
import { silentLog } from '../../platform/log.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../wire/primitives.ts';
import type { Bind, BoxPlan, WardenPlan } from './adapters/plan.ts';
import type { CommandExit, OpenedBox } from './adapters/warden.ts';
import { makeBoxDisks } from './box-disk.ts';
import { makeBoxPlanner } from './box-plan.ts';
import { makeBoxes } from './boxes.ts';
import { sandboxdConfig } from './config.ts';
import { makeDisk } from './disk.ts';
import { makeQuota } from './quota.ts';
import { makeRunEnds } from './run-ends.ts';
import { makeRunners } from './runners.ts';
import type { NewBox } from './store.ts';
import { EXIT, fakeCommand } from './testing/commands.ts';
import { makeTreeGate } from './tree-gate.ts';

describe('runners and boxes', () => {
  let dir: string;
  let plans: (WardenPlan | BoxPlan)[];
  let journal: string[];
  let canRecord: boolean;
  let why: string[];
  let fake: ReturnType<typeof fakeCommand>;
  beforeEach(() => {
    dir = realpathSync(mkdtempSync(join(tmpdir(), 'runners-')));
    plans = [];
    journal = [];
    canRecord = true;
    why = [];
    fake = fakeCommand('last words');
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  const store = {
    async recordOpened(box: NewBox) {
      if (!canRecord) throw fault('storage_full', 'no room');
      journal.push(`${box.kind} opened`);
    },
    recordWrites: async () => undefined,
    recordClosed: async (_id: BoxId, { endedBy }: { endedBy: string }) =>
      void journal.push(`ended: ${endedBy}`),
    async recordRefused(_box: NewBox, { code, message }: { code: string; message: string }) {
      if (!canRecord) throw fault('storage_full', 'no room');
      journal.push(`refused: ${code}`);
      why.push(message);
    },
  };
  const heldBox = (): OpenedBox => {
    const ended = Promise.withResolvers<CommandExit>();
    return {
      pid: 1,
      exec: async (command) => {
        plans.push(command as unknown as WardenPlan);
        return fake.command;
      },
      close: async () => ended.resolve({ ...EXIT, endedBy: 'killed' }),
      ended: ended.promise,
    };
  };
  let refusal: Error | undefined;
  const warden = {
    async start(plan: WardenPlan) {
      plans.push(plan);
      if (refusal !== undefined) throw refusal;
      return fake.command;
    },
    async open(plan: BoxPlan) {
      plans.push(plan);
      if (refusal !== undefined) throw refusal;
      return heldBox();
    },
  };
  const clock = systemClock();
  const common = () => ({
    config: sandboxdConfig.parse({ runner_spares: 0 }),
    warden,
    store,
    log: silentLog,
    clock,
    newId: makeIdMaker(clock),
    failpoint: () => undefined,
    identities: {
      mode: 'dynamic' as const,
      nobody: { uid: 9, gid: 9 },
      identityFor: async (agent: string) => ({ uid: 7, gid: 7, user: `agent-${agent}` }),
      refused: () => [],
    },
  });
  let runEnds = makeRunEnds(makeIdMaker(clock));
  const runners = () => {
    runEnds = makeRunEnds(makeIdMaker(clock));
    return makeRunners({
      ...common(),
      runEnds,
      runtimeDir: dir,
      runnerFiles: () => ({ binds: [], argv: ['/bin/node', '/r.mjs'], env: {} }),
      records: { add: () => () => undefined, sweep: async () => 0 },
    });
  };
  const whose = {
    run_id: 'run_1' as RunId,
    fence: 2,
    agent: 'coder',
    task_id: 'task_1' as TaskId,
    root_task_id: 'task_1' as TaskId,
  };
  const key = { runId: 'run_1' as RunId, fence: 2, mode: 'live' as const };
  const never = new AbortController().signal;

  it('a runner gets three directories, created before the sockets, and paths of sockets as it sees them', async () => {
    const all = runners();
    const { sockets } = await all.start({ ...whose, mode: 'live' });
    const plan = plans[0] as WardenPlan;
    assert.deepEqual(
      [plan.profile, plan.level, plan.uid, plan.user],
      ['runner', 2, 7, 'agent-coder'],
    );
    assert.deepEqual(
      plan.binds.map(({ kind, src, dst }) => [kind, src, dst]),
      ['agentd', 'toold', 'modeld'].map((name) => [
        'ro',
        join(dir, name, 'run_1.2'),
        `/run/agentd/${name}`,
      ]),
    );
    for (const { src } of plan.binds) assert.ok(existsSync(src!));
    assert.equal(sockets.toold, '/run/agentd/toold/toold.sock');
    assert.equal(all.sendLine(key, 'hello'), true);
    assert.deepEqual(fake.sent, ['hello\n']);
    fake.end(EXIT);
    const { ends } = await runEnds.ends({ after: 0 }, never);
    assert.deepEqual(ends[0]!.end, {
      code: 0,
      signal: null,
      ended_by: null,
      stderr_tail: 'last words',
    });
    assert.deepEqual(readdirSync(join(dir, 'toold')), [], 'nothing is left');
    assert.deepEqual(journal, ['runner opened', 'ended: itself']);
    assert.equal(all.sendLine(key, 'still there?'), false);
  });

  it('an end is kept until its reader has it, and then not returned again', async () => {
    const all = runners();
    await all.start({ ...whose, mode: 'live' });
    fake.end('gone');
    const first = await runEnds.ends({ after: 0 }, never);
    assert.deepEqual(
      first.ends.map(({ seq, end }) => [seq, end.ended_by]),
      [[1, 'warden']],
    );
    const again = await runEnds.ends({ after: 0, epoch: first.epoch }, never);
    assert.deepEqual(again, first, 'the same request returns the same ends');
    const elsewhere = await runEnds.ends({ after: 7, epoch: 'life_before' }, never);
    assert.equal(elsewhere.ends.length, 1, 'a reader with another epoch gets all ends');
    const gone = new AbortController();
    const waiting = runEnds.ends({ after: 1 }, gone.signal);
    gone.abort();
    assert.deepEqual((await waiting).ends, []);
  });

  it('a runner whose opening cannot be recorded is ended', async () => {
    canRecord = false;
    await assert.rejects(runners().start({ ...whose, mode: 'live' }), { code: 'storage_full' });
    const exit = await fake.command.ended;
    assert.ok(exit !== 'gone' && exit.endedBy === 'killed');
  });

  it('a refusal is recorded and leaves no directory; a replay leaves no record', async () => {
    refusal = fault('denied', 'out of bounds');
    await assert.rejects(runners().start({ ...whose, mode: 'live' }), { code: 'denied' });
    refusal = undefined;
    assert.deepEqual(journal, ['refused: denied']);
    assert.deepEqual(readdirSync(join(dir, 'modeld')), []);
    const all = runners();
    await all.start({ ...whose, mode: 'replay' });
    assert.equal(await all.endAll(), 1);
    assert.deepEqual(journal, ['refused: denied']);
  });

  it('a refusal that cannot be recorded is still the refusal', async () => {
    canRecord = false;
    refusal = fault('denied', 'out of bounds');
    await assert.rejects(runners().start({ ...whose, mode: 'live' }), { code: 'denied' });
    const once = { ...body, call_id: 'call_1' as CallId, argv: ['true'] };
    await assert.rejects(boxes().runOnce(once, stays), { code: 'denied' });
    refusal = undefined;
  });

  it("a run adopts a spare runner's socket directories, unless the identity changed", async () => {
    const identity = { uid: 7, gid: 7, user: 'agent-coder' };
    const all = makeRunners({
      ...common(),
      runEnds,
      config: sandboxdConfig.parse({}),
      identities: { ...common().identities, identityFor: async () => ({ ...identity }) },
      runtimeDir: dir,
      runnerFiles: () => ({ binds: [], argv: [], env: {} }),
      records: { add: () => () => undefined, sweep: async () => 0 },
    });
    const untilSpare = async () => {
      while (all.spareCount() === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await all.start({ ...whose, mode: 'live' });
    const spare = fakeCommand();
    fake = spare;
    await untilSpare();
    await all.start({ ...whose, fence: 3, mode: 'live' });
    assert.equal(plans.length, 2, 'no box was made for the second run');
    assert.equal(all.sendLine({ ...key, fence: 3 }, 'sockets'), true);
    assert.deepEqual(spare.sent, ['sockets\n']);
    assert.deepEqual(readdirSync(join(dir, 'toold')).sort(), ['run_1.2', 'run_1.3']);
    const stale = fakeCommand();
    fake = stale;
    await untilSpare();
    identity.uid = 8;
    fake = fakeCommand();
    await all.start({ ...whose, fence: 4, mode: 'live' });
    assert.equal((plans[3] as WardenPlan).uid, 8);
    const exit = await stale.command.ended;
    assert.ok(exit !== 'gone' && exit.endedBy === 'killed');
    await all.endAll();
    assert.deepEqual(readdirSync(join(dir, 'toold')), []);
  });

  it('one activation has at most one runner', async () => {
    const all = runners();
    await all.start({ ...whose, mode: 'live' });
    await assert.rejects(all.start({ ...whose, mode: 'live' }), { code: 'conflict' });
    assert.equal(await all.end(key), true);
    assert.equal(await all.end(key), false);
  });

  it('runners without a waiting caller are ended', async () => {
    const all = runners();
    await all.start({ ...whose, mode: 'live' });
    const exit = await fake.command.ended;
    assert.ok(exit !== 'gone' && exit.endedBy === 'killed');
  });

  const boxes = () => {
    const workspaces = {
      workspaceFor: async () => ({ layers: [], upper: dir, gid: 77, isGranted: false }),
      homeFor: async () => dir,
      keptHomeFor: async () => dir,
      pathAliases: () => [[dir, '/workspace'] as const],
    };
    const layers = {
      acquire: async () => assert.fail('no tree of these has a layer'),
      find: async () => undefined,
      refresh: async () => undefined,
    };
    const system: Bind[] = [{ kind: 'ro', src: '/usr', dst: '/usr' }];
    return makeBoxes({
      ...common(),
      boxDisks: makeBoxDisks({
        disk: makeDisk(0),
        quota: makeQuota({ measure: async () => ({ bytes: 0 }), log: silentLog }),
        ownDirs: [],
        store: {
          diskBefore: async () => 0,
          recordDiskBefore: async (_tree, _path, bytes) => bytes,
        },
        warden: { measure: async () => ({ bytes: 0, entries: 0 }) },
      }),
      planBox: makeBoxPlanner({
        ...common(),
        workspaces,
        layers,
        system,
        secrets: () => [],
        runtimeDir: '/run/agentd',
      }),
      hidden: ['/var/lib/agentd'],
      workspaces,
      layers,
      gate: makeTreeGate(clock),
      liveGuards: {
        enter: async () => async () => undefined,
        hold: () => () => undefined,
      },
      originals: { hold: () => () => undefined, keep: async () => undefined },
    });
  };
  const body = {
    ...whose,
    level: 'L2' as const,
    rules: { read: [], write: ['/workspace'], deny: [], resources: { pids: 10 } },
    network: { egress_socket: '/run/e.sock' },
  };
  const id = 'box_1' as BoxId;
  const stays = new AbortController().signal;

  it("a box has the workspace’s group, its rules' limits, and its egress socket", async () => {
    const all = boxes();
    const [one, two] = await Promise.all([all.open(id, body), all.open(id, body)]);
    assert.deepEqual(one, two);
    assert.equal(plans.length, 1, 'opened once');
    const plan = plans[0] as BoxPlan;
    assert.deepEqual(
      [plan.uid, plan.gid, plan.limits.pids, plan.egress],
      [7, 77, 10, '/run/e.sock'],
    );
    assert.equal(one.home, '/tmp', 'no home was declared');
    const other = { ...body, run_id: 'run_2' as RunId };
    await assert.rejects(all.open(id, other), { code: 'conflict' });
    const rules = { read: ['/usr'], write: [], deny: [] };
    for (const level of ['L0', 'L1', 'L3', 'L4'] as const)
      await assert.rejects(all.open('box_2' as BoxId, { ...body, rules, level }), {
        code: 'level_unavailable',
      });
    assert.equal(await all.close(id), true);
    assert.equal(await all.close(id), false);
    const refused = Array.from({ length: 4 }, () => 'refused: level_unavailable');
    assert.deepEqual(journal, ['tools opened', ...refused, 'ended: closed']);
  });

  it("an earlier activation's boxes are closed when a later one starts", async () => {
    const all = boxes();
    await all.open(id, body);
    await all.open('box_2' as BoxId, { ...body, run_id: 'run_2' as RunId });
    all.closeEarlier('run_1', 2);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(all.count(), 2, 'it is this activation’s own');
    await all.open('box_3' as BoxId, { ...body, fence: 3 });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(all.count(), 2);
    await assert.rejects(all.exec(id, { argv: ['true'] }, stays), { code: 'not_found' });
    assert.equal(await all.closeAll(), 2);
  });

  it('a process in a box sees no host path; the log does', async () => {
    const words = `${dir}/.git/hooks: below /var/lib/agentd/x, not /usr`;
    refusal = fault('sandbox_refused', words, {
      hint: `rm ${dir}/.git`,
      details: { refused: 'box' },
    });
    const stdin = {
      code: 'sandbox_refused',
      message: '/workspace/.git/hooks: below …/x, not /usr',
      hint: 'rm /workspace/.git',
      details: { refused: 'box' },
    };
    await assert.rejects(boxes().open(id, body), stdin);
    const once = { ...body, call_id: 'call_1' as CallId, argv: ['true'] };
    await assert.rejects(boxes().runOnce(once, stays), stdin);
    assert.deepEqual(why, [words, words]);
    refusal = undefined;
  });

  it('nothing is started for a caller that disconnected', async () => {
    const all = boxes();
    await all.open(id, body);
    const gone = AbortSignal.abort();
    await assert.rejects(all.exec(id, { argv: ['true'] }, gone), { code: 'canceled' });
    const once = { ...body, call_id: 'call_1' as CallId, argv: ['true'] };
    await assert.rejects(all.runOnce(once, gone), { code: 'canceled' });
    assert.equal(plans.length, 1, 'only the open box');
    await all.closeAll();
  });

  it('a command gets no more than its box, and only the declared environment', async () => {
    const all = boxes();
    await all.open(id, body);
    const limits = { wall_ms: 50, pids: 1_000, memory_bytes: 2 ** 50 };
    await all.exec(
      id,
      { argv: ['ls', '-l'], env: { A: '1' }, limits, stdin_base64: 'aGk=' },
      stays,
    );
    const command = plans[1] as WardenPlan;
    assert.deepEqual(command.args, ['/usr/bin/env', '--', 'ls', '-l']);
    assert.equal(command.cwd, '/workspace');
    assert.deepEqual([command.limits.wallMs, command.limits.pids], [50, 10]);
    assert.equal(command.limits.memoryBytes, sandboxdConfig.parse({}).box_memory_bytes);
    assert.deepEqual(Object.keys(command.env ?? {}).sort(), [
      'A',
      'HOME',
      'LANG',
      'LOGNAME',
      'PATH',
      'TERM',
      'TMPDIR',
      'USER',
    ]);
    assert.deepEqual(fake.sent, ['hi', 'end']);
    fake.end(EXIT);
    await all.closeAll();
  });
});
