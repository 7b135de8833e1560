// Two runtimes that root starts on one host: their daemons and agents are different users, so none
// owns a file of the other or can ask the other's keeper for anything.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Collected, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const IS_ROOT = process.getuid?.() === 0;
const MODES = ['embedded', 'split'] as const;

describe('two runtimes of root', { skip: IS_ROOT ? false : 'needs root', timeout: 180_000 }, () => {
  const bases = [freshDir(), freshDir()];
  const keeperDir = join(bases[0]!, 'keeper');
  let runtimes: TestRuntime[] = [];

  before(async () => {
    if (!IS_ROOT) return;
    mkdirSync(keeperDir, { mode: 0o700 });
    for (const base of bases) {
      mkdirSync(join(base, 'r'), { mode: 0o711 });
      chmodSync(base, 0o711);
    }
    // At once: the registry is locked.
    runtimes = await Promise.all(
      bases.map((base, at) => startRuntime({ base, keeperDir, agents: TEAM, mode: MODES[at]! })),
    );
  });
  after(() => Promise.all(runtimes.map((runtime) => runtime.remove())));

  const idsIn = async (runtime: TestRuntime) => {
    const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
    const toold = makeClient(sandboxdRoutes, socketLink({ socketPath }));
    const name = runtime.stateDir;
    const id = deriveId<BoxId>('box', name, 1);
    const body = {
      run_id: deriveId<RunId>('run', name, 1),
      fence: 1,
      agent: 'coder',
      task_id: deriveId<TaskId>('task', name, 1),
      root_task_id: deriveId<TaskId>('task', name, 1),
      level: 'L2' as const,
      rules: { read: [], write: ['/workspace', '/home/coder'], deny: [] },
      network: { egress_socket: null },
    };
    await toold.openBox({ params: { id }, body });
    const argv = ['/bin/sh', '-c', 'echo a > /workspace/a; id -u; id -g'];
    const command = { call_id: deriveId<CallId>('call', name, 1), argv, collect: true };
    const end = (await toold.execBox({ params: { id }, body: command })) as Collected;
    await toold.closeBox({ params: { id } });
    const printed = Buffer.from(end.stdout_base64, 'base64').toString().trim().split('\n');
    return printed.map(Number);
  };
  /** Asks the keeper of a runtime for its grants, as another user. */
  const askAs = async (uid: number, runtime: TestRuntime): Promise<number | undefined> => {
    process.seteuid!(uid);
    const path = `${runtime.runtimeDir}.warden/grant.sock`;
    const socket = connect({ path, allowHalfOpen: true });
    process.seteuid!(0);
    socket.end(Buffer.from([3, 0]));
    for await (const part of socket) return (part as Buffer)[0];
    return undefined;
  };

  it('have different users and groups, for daemons and agents, and keep them', async () => {
    const users = runtimes.map(({ info }) => info.uid);
    assert.equal(new Set(users).size, 2);
    assert.ok(users.includes(265_534), 'one has the usual ones');
    const owners = runtimes.map(({ stateDir }) => statSync(join(stateDir, 'agentd.sqlite')).uid);
    assert.deepEqual(owners, users);
    const found = await Promise.all(runtimes.map(idsIn));
    const ranges = await Promise.all(runtimes.map(({ sandboxd }) => sandboxd.identity({})));
    for (const [at, ids] of found.entries()) {
      const own = ranges[at]!.ranges;
      const others = ranges[1 - at]!.ranges;
      assert.ok(ids[0]! >= own.uids.first && ids[0]! <= own.uids.last);
      assert.ok(ids[1]! >= own.gids.first && ids[1]! <= own.gids.last);
      for (const id of [...ids, users[at]!])
        for (const { first, last } of [others.uids, others.gids])
          assert.ok(id < first || id > last, `${id} is not of the other`);
    }
    runtimes[1] = await runtimes[1]!.stop().then(() => runtimes[1]!.restart());
    assert.equal(runtimes[1]!.info.uid, users[1]);
    const registry = readFileSync(join(keeperDir, 'ids.json'), 'utf8');
    assert.equal((JSON.parse(registry) as unknown[]).length, 2);
  });

  it('no agent or daemon of one can ask the keeper of the other', async () => {
    const last = runtimes[1]!;
    const first = runtimes[0]!;
    for (const [runtime, other] of [
      [first, last],
      [last, first],
    ] as const) {
      const { ranges } = await other.sandboxd.identity({});
      for (const uid of [other.info.uid, ranges.uids.first, ranges.gids.first])
        assert.equal(await askAs(uid, runtime), 2, `${uid}`);
      assert.equal(await askAs(61_500, runtime), 0, 'control: a person');
    }
  });
});
