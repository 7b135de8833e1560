// An agent that fills the disk: its command is ended before the disk is full, and nothing new is
// begun there until there is room again. On a file system in memory, so that no disk is filled.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, realpathSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { socketPathOf } from '../../src/platform/daemon.ts';
import { derivedId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import { sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/words.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';

const MIB = 1_048_576;
const ROOM = 64 * MIB;

let runtime: TestRuntime;
let sandboxd: Client<typeof sandboxdRoutes>;
let dir: string;
const id = derivedId<BoxId>('box', 'disk-room');

before(async () => {
  dir = realpathSync(mkdtempSync('/dev/shm/disk-room-'));
  chmodSync(dir, 0o777);
  const { bavail, bsize } = statfsSync(dir);
  const config = { workspace_roots: ['/dev/shm'], disk_reserve_bytes: bavail * bsize - ROOM };
  runtime = await startRuntime({ config: JSON.stringify({ sandboxd: config }) });
  const socketPath = socketPathOf(runtime.runtimeDir, 'sandboxd', 'peer-toold');
  sandboxd = makeClient(sandboxdRoutes, socketLink({ socketPath }));
  const task = derivedId<TaskId>('task', 'disk-room');
  const whose = { run_id: derivedId<RunId>('run', 'disk-room'), fence: 1, agent: 'coder' };
  await sandboxd.openBox({
    params: { id },
    body: {
      ...{ ...whose, task_id: task, root_task_id: task, level: 'L2', workspace_path: dir },
      rules: { read: [], write: ['/workspace'], deny: [], resources: {} },
      network: { egress_socket: null },
    },
  });
});
after(async () => {
  await runtime?.remove();
  rmSync(dir, { recursive: true, force: true });
});

let made = 0;
const sh = (command: string) =>
  sandboxd.execBox({
    params: { id },
    body: {
      call_id: derivedId<CallId>('call', 'disk-room', made++),
      argv: ['/bin/sh', '-c', command],
      collect: true,
    },
  }) as Promise<{ exit_code: number | null; ended_by: string | null }>;

it('a command that takes the last of the disk is ended; after that there is room again', async () => {
  assert.equal((await sh('echo some > some')).exit_code, 0, 'what fits is written');
  const filled = await sh('dd if=/dev/zero of=big bs=1M count=96 2>/dev/null; sleep 20');
  assert.equal(filled.ended_by, 'disk');
  await assert.rejects(sh('echo more > more'), {
    code: 'storage_full',
    message: /kept from agents/,
  });
  const write = { op: 'write' as const, path: '/workspace/x', content: 'x' };
  await assert.rejects(sandboxd.boxFiles({ params: { id }, body: write as never }), {
    code: 'storage_full',
  });
  rmSync(join(dir, 'big'));
  assert.equal((await sh('echo more > more')).exit_code, 0);
});
