// The warden on a machine with cgroup v2 only: a small virtual machine, since this host may have
// v1. The kernel enforces the limits per box and per command, and nothing is left behind.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import {
  encodeBoxCommand,
  encodeBoxPlan,
  encodePlan,
  type PlanLimits,
  type WardenPlan,
} from '../../src/daemons/sandboxd/adapters/plan.ts';
import { LIMITS } from '../../src/daemons/sandboxd/testing/limits.ts';
import { buildHostile } from './support/warden.ts';
import { FRAME, frame } from './support/warden-client.ts';

const REPO = join(import.meta.dirname, '../..');
const kernel = globSync('/boot/vmlinuz-*').sort().at(-1);
const has = (program: string) => spawnSync(program, ['--help'], { stdio: 'ignore' }).status === 0;

function plan(args: string[], limits: Partial<PlanLimits>): WardenPlan {
  const owner = { uid: 61_234, gid: 61_234 };
  const binds: WardenPlan['binds'] = [
    { kind: 'ro', src: '/bin', dst: '/opt' },
    { kind: 'rw', src: '/ws', dst: '/ws' },
  ];
  const all = { ...LIMITS, wallMs: 60_000, ...limits };
  return { id: 'vm', level: 2, profile: 'tool', ...owner, args, cwd: '/ws', binds, limits: all };
}

const end = frame(FRAME.stdinEnd);
const memory = { memoryBytes: 64 * 2 ** 20 };
const run = (words: string[], limits: Partial<PlanLimits> = {}) =>
  Buffer.concat([frame(FRAME.plan, encodePlan(plan(['/opt/hostile', ...words], limits))), end]);
const exec = (words: string[], limits: Partial<PlanLimits> = {}) => {
  const { args, cwd, limits: all } = plan(['/opt/hostile', ...words], limits);
  return Buffer.concat([
    frame(FRAME.exec, encodeBoxCommand({ box: 1n, args, cwd, limits: all })),
    end,
  ]);
};

function write(dir: string): void {
  const { args: _args, cwd: _cwd, ...box } = plan([], { wallMs: 600_000 });
  const files = {
    '1-hello': run(['hello']),
    '2-memory': run(['eat-memory', '200'], memory),
    '3-pids': run(['fork-bomb', '100'], { pids: 20 }),
    '4-cpu': run(['spin'], { cpuMs: 300 }),
    '4-share': run(['spin'], { cpuMilli: 100, cpuMs: 2_000, wallMs: 6_000 }),
    '5-open': frame(FRAME.open, encodeBoxPlan(box)),
    '6-memory': exec(['eat-memory', '200'], memory),
    '7-pids': exec(['fork-bomb', '50'], { pids: 20 }),
    '8-cpu': exec(['spin'], { cpuMs: 300 }),
    '9-hello': exec(['hello']),
  };
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(dir, name), bytes);
}

function buildRoot(root: string): void {
  for (const dir of ['bin', 'plans']) mkdirSync(join(root, dir), { recursive: true });
  const cc = (output: string, from: string) => {
    const sources = globSync(join(REPO, from));
    const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-O2', '-static', '-w'];
    execFileSync('cc', [...flags, '-o', join(root, 'bin', output), ...sources]);
  };
  cc('warden', 'native/warden/*.c');
  cc('client', 'test/escape/vm/client.c');
  copyFileSync(buildHostile(), join(root, 'bin/hostile'));
  copyFileSync('/bin/busybox', join(root, 'bin/busybox'));
  copyFileSync(join(REPO, 'test/escape/vm/init.sh'), join(root, 'init'));
  write(join(root, 'plans'));
}

function boot(dir: string): string {
  const pack = 'find . | /bin/busybox cpio -o -H newc 2>/dev/null | gzip -1 >../initrd.gz';
  execFileSync('sh', ['-c', `chmod 755 init bin/* && ${pack}`], { cwd: join(dir, 'root') });
  const words = 'console=ttyS0 quiet panic=1 cgroup_no_v1=all lsm=landlock,yama loglevel=0';
  const machine = ['-m', '1024', '-smp', '2', '-nographic', '-no-reboot', '-append', words];
  const files = ['-kernel', kernel ?? '', '-initrd', join(dir, 'initrd.gz')];
  const { stdout } = spawnSync('qemu-system-x86_64', [...machine, ...files], {
    encoding: 'utf8',
    timeout: 600_000,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return stdout.replaceAll('\r', '');
}

it('C18 limits of boxes and commands are enforced on cgroup v2, whichever cgroup the warden is in', (t) => {
  const missing = [
    ...(has('qemu-system-x86_64') ? [] : ['qemu-system-x86_64']),
    ...(readdirSync('/bin').includes('busybox') ? [] : ['a static busybox']),
    ...(kernel === undefined ? ['a kernel in /boot'] : []),
  ];
  if (missing.length > 0) return t.skip(`needs ${missing.join(', ')}`);
  const dir = mkdtempSync(join(tmpdir(), 'warden-vm-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  buildRoot(join(dir, 'root'));
  const output = boot(dir);
  for (const where of ['root', 'alone']) {
    const part = output.split(`in ${where}\n`)[1]?.split(/\nin /)[0] ?? '';
    // ended by: 0 itself, 2 processor, 3 memory. held: memory, pids, cpu, tree, each by v2.
    assert.match(
      part,
      /1-hello: held 2222 says worked (says )?\s*ended by 0 signal 0 code 0\n/,
      output,
    );
    for (const number of [2, 6])
      assert.match(part, new RegExp(`${number}-memory: held 2222.* ended by 3 signal 9`), output);
    for (const number of [3, 7])
      assert.match(part, new RegExp(`${number}-pids: held 2222 says made 19`), output);
    for (const number of [4, 8])
      assert.match(part, new RegExp(`${number}-cpu: held 2222 ended by 2`), output);
    assert.match(part, /4-share: held 2222 ended by 1/, output);
    assert.match(part, /9-hello:.* says worked/, output);
    assert.match(part, /left: *$/m, output);
  }
  // Where the cgroup cannot be delegated, limits fall back to per-process limits.
  const crowd = output.split('in crowd\n')[1] ?? '';
  assert.match(crowd, /2-memory: held 0022.* ended by 0 signal 0 code 1\n/, output);
  assert.match(crowd, /3-pids: held 0022 says made 20/, output);
  assert.match(crowd, /left: *$/m, output);
});
