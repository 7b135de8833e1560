// An agent that fills the disk: its command is ended before the disk is full, and nothing new
// starts there until there is space again. On an in-memory file system, so that no disk is filled.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, realpathSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';

const MIB = 1_048_576;
const ROOM = 64 * MIB;

let runtime: TestRuntime;
let sandboxd: Client<typeof sandboxdRoutes>;
let dir: string;
const id = deriveId<BoxId>('box', 'low-disk-space');
const few = deriveId<BoxId>('box', 'few-files');
const FILES = 2_000;

/** A separate disk, if this user can mount one. */
function isMounted(at: string, options: string): boolean {
  const args = ['-t', 'tmpfs', '-o', `${options},mode=0777`, 'tmpfs', at];
  return spawnSync('mount', args, { stdio: 'ignore' }).status === 0;
}
function makeFew(): string | undefined {
  const made = realpathSync(mkdtempSync('/dev/shm/few-files-'));
  if (isMounted(made, `size=1t,nr_inodes=${FILES}`)) return made;
  rmSync(made, { recursive: true });
  return undefined;
}
const fewDir = makeFew();
let isOwn = false;

before(async () => {
  dir = realpathSync(mkdtempSync('/dev/shm/low-disk-space-'));
  chmodSync(dir, 0o777);
  // Other processes may write to the shared one.
  isOwn = isMounted(dir, 'size=1g');
  const { bavail, bsize } = statfsSync(dir);
  const config = { workspace_roots: ['/dev/shm'], disk_reserve_bytes: bavail * bsize - ROOM };
  runtime = await startRuntime({ config: JSON.stringify({ sandboxd: config }) });
  const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
  sandboxd = makeClient(sandboxdRoutes, socketLink({ socketPath }));
  await open(id, dir);
});

async function open(box: BoxId, workspace_path: string): Promise<void> {
  const task = deriveId<TaskId>('task', workspace_path);
  const whose = { run_id: deriveId<RunId>('run', workspace_path), fence: 1, agent: 'coder' };
  await sandboxd.openBox({
    params: { id: box },
    body: {
      ...whose,
      task_id: task,
      root_task_id: task,
      level: 'L2',
      workspace_path,
      rules: { read: [], write: ['/workspace'], deny: [], resources: {} },
      network: { egress_socket: null },
    },
  });
}
after(async () => {
  await runtime?.remove();
  if (fewDir !== undefined) {
    execFileSync('umount', ['-l', fewDir]);
    rmSync(fewDir, { recursive: true });
  }
  if (isOwn) execFileSync('umount', ['-l', dir]);
  rmSync(dir, { recursive: true, force: true });
});

let made = 0;
const sh = (command: string, box = id) =>
  sandboxd.execBox({
    params: { id: box },
    body: {
      call_id: deriveId<CallId>('call', 'low-disk-space', made++),
      argv: ['/bin/sh', '-c', command],
      collect: true,
    },
  }) as Promise<{ exit_code: number | null; ended_by: string | null }>;

it('a command that uses the last disk space is ended; afterwards there is space again', async () => {
  assert.equal((await sh('echo some > some')).exit_code, 0, 'a small file is written');
  const filled = await sh('dd if=/dev/zero of=big bs=1M count=96 2>/dev/null; sleep 20');
  assert.equal(filled.ended_by, 'disk');
  await assert.rejects(sh('echo more > more'), {
    code: 'storage_full',
    message: /reserved/,
  });
  const write = { op: 'write' as const, path: '/workspace/x', content: 'x' };
  await assert.rejects(sandboxd.boxFiles({ params: { id }, body: write as never }), {
    code: 'storage_full',
  });
  rmSync(join(dir, 'big'));
  assert.equal((await sh('echo more > more')).exit_code, 0);
});

const skip = fewDir === undefined && 'needs root to mount a small tmpfs';
it('a command that uses the last inodes is ended', { skip }, async () => {
  await open(few, fewDir!);
  const made = await sh(
    `i=0; while [ $i -lt ${FILES} ]; do touch f$i; i=$((i+1)); done; sleep 20`,
    few,
  );
  assert.equal(made.ended_by, 'disk');
  await assert.rejects(sh('touch more', few), {
    code: 'storage_full',
    message: 'the disk of /workspace has few inodes left, and those are reserved',
  });
  for (let i = 0; i < 500; i++) rmSync(join(fewDir!, `f${i}`));
  assert.equal((await sh('touch more', few)).exit_code, 0);
});
