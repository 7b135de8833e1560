// A denied directory that the host has mounted a second time is closed under that name too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Collected, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;

for (const mode of ['root', 'user'] as const)
  describe(`a bind mount of a denied directory, as ${mode}`, {
    skip: IS_ROOT ? false : 'needs root, to mount',
    timeout: 120_000,
  }, () => {
    // A box has its own /tmp.
    const shown = mkdtempSync('/var/tmp/agentd-t-');
    const denied = join(shown, 'denied');
    const mounts = ['whole', 'part'].map((name) => join(shown, name));
    let runtime: TestRuntime;
    let toold: Client<typeof sandboxdRoutes>;
    let made = 0;

    before(async () => {
      if (!IS_ROOT) return;
      chmodSync(shown, 0o755);
      mkdirSync(join(denied, 'sub'), { recursive: true });
      writeFileSync(join(denied, 'sub', 'file'), 'secret\n');
      for (const dir of mounts) mkdirSync(dir);
      execFileSync('mount', ['--bind', denied, mounts[0]!]);
      execFileSync('mount', ['--bind', join(denied, 'sub'), mounts[1]!]);
      const config = JSON.stringify({ sandboxd: { read_roots: ['/var/tmp'] } });
      const uid = mode === 'user' ? { uid: NOBODY } : {};
      runtime = await startRuntime({ agents: TEAM, config, ...uid });
      const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
      toold = makeClient(sandboxdRoutes, socketLink({ socketPath }));
    });
    after(async () => {
      for (const dir of IS_ROOT ? mounts : []) execFileSync('umount', [dir]);
      await runtime?.remove();
      rmSync(shown, { recursive: true });
    });

    /** Returns what a box prints of the file under each name. */
    const read = async (deny: string[]): Promise<string> => {
      const id = deriveId<BoxId>('box', mode, made++);
      const tree = deriveId<TaskId>('task', mode, 'alias');
      const body = {
        run_id: deriveId<RunId>('run', mode, 'alias'),
        fence: 1,
        agent: 'coder',
        task_id: tree,
        root_task_id: tree,
        level: 'L2' as const,
        rules: { read: [shown], write: ['/workspace', '/home/coder'], deny },
        network: { egress_socket: null },
      };
      await toold.openBox({ params: { id }, body });
      const names = [`${denied}/sub/file`, `${mounts[0]}/sub/file`, `${mounts[1]}/file`];
      const argv = ['/bin/sh', '-c', `for f in ${names.join(' ')}; do cat $f || echo no; done`];
      const command = { call_id: deriveId<CallId>('call', mode, made++), argv, collect: true };
      const end = (await toold.execBox({ params: { id }, body: command })) as Collected;
      await toold.closeBox({ params: { id } });
      return Buffer.from(end.stdout_base64, 'base64').toString();
    };

    it('cannot be read by its other names', async () => {
      assert.equal(await read([]), 'secret\nsecret\nsecret\n', 'control');
      assert.equal(await read([denied]), 'no\nno\nno\n');
      assert.equal(await read([join(denied, 'sub')]), 'no\nno\nno\n');
      assert.equal(await read([mounts[1]!]), 'no\nno\nno\n', 'denied by the other name');
    });
  });
