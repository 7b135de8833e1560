// Boxes in split mode, where sandboxd can die alone.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { BOX_NOT_OPEN, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { childrenOf, fieldOf, isAlive } from '../support/processes.ts';
import { eventually, startRuntime, type TestRuntime } from '../support/runtime.ts';

describe('sandboxes in split mode', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime({ mode: 'split' });
  });
  after(() => runtime.remove());

  it('killing sandboxd ends its boxes; it restores its users after the restart', async () => {
    const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
    const toold = makeClient(sandboxdRoutes, socketLink({ socketPath }));
    const pidOf = (name: string) =>
      [runtime.process.pid!, runtime.runtimePid]
        .flatMap(childrenOf)
        .find((pid) => fieldOf(pid, 'Name') === name)!;
    const open = async (id: BoxId) => {
      const body = {
        run_id: deriveId<RunId>('run', id),
        fence: 1,
        agent: 'coder',
        level: 'L2' as const,
        task_id: deriveId<TaskId>('task', id),
        root_task_id: deriveId<TaskId>('task', id),
        rules: { read: [], write: ['/workspace'], deny: [] },
        network: { egress_socket: null },
      };
      return toold.openBox({ params: { id }, body });
    };
    const id = deriveId<BoxId>('box', 'split');
    const { uid } = await open(id);
    const argv = ['/bin/sleep', '60'];
    const call_id = deriveId<CallId>('call', 'split');
    const running = toold
      .execBox({ params: { id }, body: { call_id, argv, collect: true } })
      .catch((error: { code: string }) => error.code);
    const boxed = await eventually('the command', async () => {
      const all = childrenOf(pidOf('warden')).flatMap((pid) => [pid, ...childrenOf(pid)]);
      return all.some((pid) => fieldOf(pid, 'Name') === 'sleep') ? all : undefined;
    });
    process.kill(pidOf('sandboxd'), 'SIGKILL');
    assert.equal(await running, 'unavailable');
    const alive = boxed.filter((pid) => existsSync(`/proc/${pid}/exe`));
    await eventually('the boxes to go', async () =>
      alive.some((pid) => isAlive(pid) && fieldOf(pid, 'Name') === 'sleep') ? undefined : true,
    );
    const again = await eventually('a box again', () => open(deriveId<BoxId>('box', 'again')));
    assert.equal(again.uid, uid);
    const inOld = toold.execBox({ params: { id }, body: { call_id, argv, collect: true } });
    await assert.rejects(inOld, { code: 'not_found', details: { reason: BOX_NOT_OPEN } });
    const { boxes } = await runtime.sandboxd.listBoxes({ query: { limit: 100 } });
    assert.deepEqual(
      boxes.filter((box) => box.id === id).map(({ ended_by }) => ended_by),
      ['restart'],
    );
  });
});
