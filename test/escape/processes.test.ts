// Attacks on processes, and the limits: what a box may use up and how it ends.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../support/runtime.ts';
import { type EscapeCase, exited, runCases } from './support/cases.ts';
import { MODES, TestWarden } from './support/warden.ts';

let target: ChildProcess | undefined;

const cases: EscapeCase[] = [
  {
    id: 'C13',
    title: 'no capability in any set',
    attack: ['capabilities'],
    off: ['caps'],
  },
  {
    id: 'C13',
    title: 'a setuid-root program gives no privileges',
    attack: ['gain-root', '/ws/suid'],
    off: ['noNewPrivs', 'userns', 'caps', 'landlock', 'seccomp'],
    modes: ['root'],
    prepare: (warden) => {
      copyFileSync(warden.hostile, join(warden.workspace, 'suid'));
      chmodSync(join(warden.workspace, 'suid'), 0o4755);
    },
    says: /euid 61234/,
  },
  {
    id: 'C20',
    title: 'a process of the same user outside the box cannot be signalled',
    prepare: (warden) => {
      target?.kill('SIGKILL');
      const { uid, gid } = warden;
      const own = process.getuid?.() === 0 ? { uid, gid } : {};
      target = spawn('/bin/sleep', ['60'], { stdio: 'ignore', ...own });
    },
    attack: () => ['signal', String(target?.pid)],
    off: ['pidns', 'landlock'],
    plan: { level: 1 },
    check: (_warden, _outcome, guarded) => {
      if (!guarded) target?.kill('SIGKILL');
    },
  },
  {
    id: 'C5',
    title: 'the box’s init cannot be signalled',
    attack: ['signal', '1'],
    off: ['landlock'],
    says: /EPERM/,
  },
];
runCases(cases);

for (const mode of MODES) {
  describe(`[K52] [R164] [R427] limits, as ${mode}`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    after(() => warden.stop());
    const run = async (words: string[], limits: object) =>
      exited(await warden.run(['/opt/hostile', ...words], { limits }));

    it('C18 a fork bomb hits the process limit', async () => {
      const outcome = await run(['fork-bomb', '100'], { pids: 20 });
      assert.match(outcome.stdout, /EAGAIN/);
      const made = Number(/made (\d+)/.exec(outcome.stdout)?.[1]);
      assert.ok(made >= 10 && made <= 22, outcome.stdout);
      assert.equal((await run(['fork-bomb', '100'], { pids: 200 })).code, 0, 'control');
    });
    it('C18 a thread bomb hits the process limit', async () => {
      const outcome = await run(['thread-bomb', '100'], { pids: 20 });
      assert.match(outcome.stdout, /failed pthread_create/);
      assert.equal((await run(['thread-bomb', '100'], { pids: 200 })).code, 0, 'control');
    });
    it('C18 a daemon does not outlive its command', async () => {
      assert.equal((await run(['survive', '/ws/alive'], {})).code, 0);
      spawnSync(warden.hostile, ['survive', join(warden.outside, 'alive')]);
      await eventually('the one outside to survive: the control', async () =>
        existsSync(join(warden.outside, 'alive')) ? true : undefined,
      );
      assert.ok(!existsSync(join(warden.workspace, 'alive')));
    });
    it('the wall-clock limit ends a command', async () => {
      const outcome = await run(['sleep', '30'], { wallMs: 300 });
      assert.deepEqual([outcome.endedBy, outcome.signal], ['wall', 9]);
    });
    it('C18 a command may exit by itself within the grace period', async () => {
      const outcome = await run(['polite', '30'], { wallMs: 3_000, graceMs: 15_000 });
      assert.deepEqual([outcome.endedBy, outcome.code], ['wall', 7]);
      assert.match(outcome.stdout, /polite/);
    });
    it('C18 a command that ignores SIGTERM is killed after the grace period', async () => {
      const outcome = await run(['stubborn', '30'], { wallMs: 3_000, graceMs: 300 });
      assert.deepEqual([outcome.endedBy, outcome.signal], ['wall', 9]);
    });
    it('the CPU-time limit ends a command', async () => {
      const outcome = await run(['spin'], { cpuMs: 300 });
      assert.equal(outcome.endedBy, 'cpu');
    });
    it('the CPU quota applies to a box and to its commands', async () => {
      const client = await warden.client();
      const { quota } = await client.features();
      client.close();
      // A twentieth of one CPU for four seconds is a fifth of the CPU-time limit.
      const little = { cpuMilli: 50, cpuMs: 1_000, wallMs: 4_000 };
      const limit = quota === 'none' ? 'cpu' : 'wall';
      const free = { cpuMs: 1_000, wallMs: 60_000 };
      assert.equal(
        (await run(['spin'], { ...little, ...(limit === 'cpu' ? free : {}) })).endedBy,
        limit,
      );
      assert.equal((await run(['spin'], free)).endedBy, 'cpu', 'control');
      if (mode === 'root') assert.notEqual(quota, 'none');
      if (limit === 'cpu') return;
      for (const [cpuMilli, limits, endedBy] of [
        [50, { cpuMs: 1_000, wallMs: 4_000 }, 'wall'],
        [0, free, 'cpu'],
      ] as const) {
        const opener = await warden.client();
        const {
          args: _,
          cwd: __,
          env: ___,
          ...plan
        } = warden.plan([], {
          limits: { cpuMilli, wallMs: 60_000 },
        });
        const box = await opener.open(plan);
        assert.ok(box.kind === 'opened', box.kind);
        const spun = exited(await warden.exec(box.box, ['/opt/hostile', 'spin'], limits));
        assert.equal(spun.endedBy, endedBy);
        opener.close();
      }
    });
    it('the memory limit ends a command', async () => {
      const outcome = await run(['eat-memory', '300'], { memoryBytes: 64 * 1024 * 1024 });
      assert.ok(
        outcome.endedBy === 'memory' || /ENOMEM/.test(outcome.stdout),
        JSON.stringify(outcome),
      );
      assert.equal((await run(['eat-memory', '300'], {})).code, 0, 'control');
    });
    it('the output limit is exact to the byte', async () => {
      const outcome = await run(['flood'], { outputBytes: 100_000 });
      assert.deepEqual([outcome.endedBy, outcome.stdout.length], ['output', 100_000]);
    });
    it('A24 a file of a terabyte exceeds the file size limit', async () => {
      assert.equal((await run(['big-file', '/ws/big'], {})).signal, 25);
    });
    it('A24 the private /tmp is small', async () => {
      const outcome = await run(['fill', '/tmp/x', '400'], { fsizeBytes: 2 ** 30 });
      assert.match(outcome.stdout, /ENOSPC|ENOMEM/);
    });
    it('the result reports the resources used', async () => {
      const outcome = await run(['eat-memory', '50'], {});
      assert.ok(outcome.wallUs > 0 && outcome.cpuUs > 0);
    });
    it('stdin of any length arrives, stdout of any length leaves', async () => {
      const text = 'abcdefghi\n'.repeat(100_000);
      const outcome = exited(await warden.run(['/bin/cat'], {}, text));
      assert.equal(outcome.stdout, text);
    });
    it('C26 the box learns little about its host', async () => {
      const script =
        'hostname; cat /etc/machine-id /sys/class/net/*/address /proc/cpuinfo; cat /proc/net/dev';
      const outcome = exited(await warden.run(['/bin/sh', '-c', script]));
      assert.match(outcome.stdout, /^box\n/);
      assert.match(outcome.stderr, /machine-id: No such file/);
      assert.match(outcome.stderr, /address'?: No such file/);
      assert.match(outcome.stderr, /cpuinfo: No such file/);
      assert.doesNotMatch(outcome.stdout, /eth0|docker|veth/);
    });
    it('C4 the box sees its own processes only', async () => {
      const outcome = exited(await warden.run(['/bin/sh', '-c', 'ls /proc | grep -c "^[0-9]"']));
      assert.ok(Number(outcome.stdout) <= 4, outcome.stdout);
    });
    it('C15 an unknown system call fails as on an older kernel', async () => {
      assert.equal((await run(['unknown-call'], {})).stdout, 'ENOSYS\n');
    });
    it('a command has the priority the warden was started with, not the warden’s own', async () => {
      const outcome = exited(await warden.run(['/usr/bin/nice']));
      assert.equal(Number(outcome.stdout), getPriority());
    });
    it('the environment is the declared one', async () => {
      const outcome = exited(await warden.run(['/usr/bin/env'], { env: { ONLY: 'this' } }));
      assert.equal(outcome.stdout, 'ONLY=this\n');
    });
  });
}
