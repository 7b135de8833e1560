// Builds the warden when its sources are newer, starts one in its own directory, as root or as an
// ordinary user, and removes everything afterwards.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type {
  Bind,
  BoxCommand,
  Guard,
  PlanLimits,
  Relay,
  TerminalSize,
  WardenPlan,
} from '../../../src/daemons/sandboxd/adapters/plan.ts';
import { LIMITS } from '../../../src/daemons/sandboxd/testing/limits.ts';
import { eventually } from '../../support/runtime.ts';
import { cgroupsOf, processesOf, zombiesOf } from './host.ts';
import { type BoxOutcome, type OpenBoxRequest, WardenClient } from './warden-client.ts';

const REPO = join(import.meta.dirname, '../../..');
const SOURCE = join(REPO, 'native/warden');
const HOSTILE = join(REPO, 'test/escape/hostile');
const FLAGS = ['-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror'];

const newest = (dir: string) =>
  Math.max(...readdirSync(dir).map((name) => statSync(join(dir, name)).mtimeMs));

function compile(output: string, sources: string[], flags: string[], dirs: string[]): string {
  const fresh = Math.max(...dirs.map(newest));
  if (existsSync(output) && statSync(output).mtimeMs > fresh) return output;
  mkdirSync(join(output, '..'), { recursive: true });
  // Test files run in parallel: the last rename wins, and each file is complete.
  const part = `${output}.${process.pid}`;
  execFileSync('cc', [...FLAGS, ...flags, '-o', part, ...sources], { stdio: 'inherit' });
  renameSync(part, output);
  return output;
}

export type Build = 'plain' | 'guards' | 'sanitized';
const BUILD_FLAGS: Record<Build, string[]> = {
  plain: ['-O2'],
  guards: ['-O2', '-DWARDEN_TEST_GUARDS'],
  sanitized: ['-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'],
};

export function buildWarden(build: Build): string {
  const name = build === 'plain' ? 'warden' : `warden-${build}`;
  const sources = readdirSync(SOURCE)
    .filter((file) => file.endsWith('.c'))
    .map((file) => join(SOURCE, file));
  return compile(join(REPO, 'build', name), sources, BUILD_FLAGS[build], [SOURCE]);
}

export function buildKeeper(): string {
  const dir = join(REPO, 'native/keeper');
  const sources = readdirSync(dir)
    .filter((file) => file.endsWith('.c'))
    .map((file) => join(dir, file));
  return compile(join(REPO, 'build/keeper'), sources, BUILD_FLAGS.plain, [dir]);
}

// Builds the hostile program, static so that it needs nothing from the box.
export function buildHostile(): string {
  const output = join(REPO, 'build/escape/hostile');
  const sources = readdirSync(HOSTILE)
    .filter((file) => file.endsWith('.c'))
    .map((file) => join(HOSTILE, file));
  return compile(output, sources, ['-O1', '-static', '-pthread'], [HOSTILE]);
}

// The plan parser alone, under the sanitizers.
export function buildFuzzer(): string {
  const dir = join(REPO, 'test/escape/fuzz');
  const sources = [join(dir, 'fuzz-plan.c'), join(SOURCE, 'plan.c'), join(SOURCE, 'requests.c')];
  return compile(join(REPO, 'build/escape/fuzz-plan'), sources, BUILD_FLAGS.sanitized, [
    SOURCE,
    dir,
  ]);
}

// The keeper's parser of requests for grants alone, under the sanitizers.
export function buildGrantFuzzer(): string {
  const dir = join(REPO, 'test/escape/fuzz');
  const keeper = join(REPO, 'native/keeper');
  const sources = [join(dir, 'fuzz-grant-request.c'), join(keeper, 'grant-request.c')];
  const output = join(REPO, 'build/escape/fuzz-grant-request');
  return compile(output, sources, BUILD_FLAGS.sanitized, [keeper, dir]);
}

export const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65534;

export type WardenMode = 'root' | 'user';
// Root can test both modes, an ordinary user only its own.
export const MODES: WardenMode[] = IS_ROOT ? ['root', 'user'] : ['user'];

export type TestWardenOptions = {
  mode: WardenMode;
  build?: Build;
  wrap?: string[];
  bounds?: string[] | ((dir: string) => string[]);
  clientUid?: number;
  parent?: false; // do not end with this process
};

const SYSTEM = ['/usr', '/bin', '/lib', '/lib64'];

export class TestWarden {
  readonly dir: string;
  readonly mode: WardenMode;
  readonly uid: number;
  readonly gid: number;
  readonly workspace: string;
  readonly outside: string;
  readonly hostile: string;
  readonly haltFile: string;
  readonly socket: string;
  readonly #options: TestWardenOptions;
  process: ChildProcess | undefined;
  stderr = '';

  constructor(options: TestWardenOptions) {
    this.#options = options;
    this.mode = options.mode;
    this.dir = realpathSync(mkdtempSync('/tmp/warden-'));
    chmodSync(this.dir, 0o755);
    const ownUid = process.getuid?.() ?? NOBODY;
    const asNobody = this.mode === 'user' && IS_ROOT;
    const wardenUid = asNobody ? NOBODY : ownUid;
    const wardenGid = asNobody ? NOBODY : (process.getgid?.() ?? NOBODY);
    this.uid = this.mode === 'root' ? 61_234 : wardenUid;
    this.gid = this.mode === 'root' ? 61_234 : wardenGid;
    this.workspace = join(this.dir, 'work');
    this.outside = join(this.dir, 'outside');
    this.haltFile = join(this.dir, 'state/HALT');
    this.socket = join(this.dir, 'run/warden.sock');
    this.hostile = join(this.dir, 'bin/hostile');
    for (const name of ['work', 'outside', 'state', 'run', 'bin']) mkdirSync(join(this.dir, name));
    copyFileSync(buildHostile(), this.hostile);
    chmodSync(this.hostile, 0o755);
    writeFileSync(join(this.outside, 'secret'), 'untouched\n', { mode: 0o666 });
    chmodSync(join(this.outside, 'secret'), 0o666);
    chmodSync(this.outside, 0o777);
    chownSync(this.workspace, this.uid, this.gid);
    if (asNobody)
      for (const name of ['state', 'run']) chownSync(join(this.dir, name), wardenUid, wardenGid);
    writeFileSync(join(this.dir, 'bounds'), `${this.#boundLines(wardenUid).join('\n')}\n`);
  }

  #boundLines(wardenUid: number): string[] {
    const { bounds = [] } = this.#options;
    const client = this.#options.clientUid ?? (this.mode === 'user' ? wardenUid : 0);
    return [
      `uid ${this.uid} ${this.uid}`,
      `gid ${this.gid} ${this.gid}`,
      `client_uid ${client}`,
      ...SYSTEM.map((path) => `ro ${path}`),
      `ro ${join(this.dir, 'bin')}`,
      `ro ${this.outside}`,
      `rw ${this.workspace}`,
      `relay ${join(this.dir, 'egress')}`,
      ...(typeof bounds === 'function' ? bounds(this.dir) : bounds),
    ];
  }

  async start(): Promise<this> {
    const binary = buildWarden(this.#options.build ?? 'guards');
    const own = join(this.dir, 'bin/warden');
    rmSync(own, { force: true }); // an earlier one may still run from it
    copyFileSync(binary, own);
    chmodSync(own, 0o755);
    const argv = [
      ...(this.mode === 'user' && IS_ROOT ? AS_NOBODY : []),
      ...(this.#options.wrap ?? []),
      own,
      '--run',
      join(this.dir, 'run'),
      '--socket',
      this.socket,
      '--bounds',
      join(this.dir, 'bounds'),
      '--halt',
      this.haltFile,
      // So that nothing stays if this test is killed.
      ...(this.#options.parent === false ? [] : ['--parent', String(process.pid)]),
    ];
    const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
    this.process = child;
    child.stderr.on('data', (bytes: Buffer) => {
      this.stderr += bytes.toString();
    });
    const first = await Promise.race([once(child.stdout, 'data'), once(child, 'close')]);
    if (!String(first[0]).startsWith('ready'))
      throw new Error(`the warden did not start: ${this.stderr}`);
    return this;
  }

  // The process exists from the start, but has its name a moment later.
  janitor(): Promise<number> {
    return eventually(
      'the janitor',
      async () => processesOf(this.dir).find(({ name }) => name === 'warden-janitor')?.pid,
    );
  }

  // There is no notification of a client's end: poll.
  async noBoxes(): Promise<void> {
    await eventually('the end of the boxes', async () =>
      (await this.leftovers()).boxes === 0 ? true : undefined,
    );
  }

  // The log has its own pipe, and so may arrive after the response.
  async untilLogged(pattern: RegExp): Promise<void> {
    await eventually(`${pattern} in the warden's log`, async () =>
      pattern.test(this.stderr) ? true : undefined,
    );
  }

  // As the user the warden serves: root may connect to every socket, but is not that user.
  client(): Promise<WardenClient> {
    return WardenClient.open(this.socket);
  }

  plan(args: string[], more: Partial<PlanOptions> = {}): WardenPlan {
    const { binds = [], limits = {}, guardsOff = [], level = 2, ...rest } = more;
    const base: Bind[] =
      level === 2
        ? [
            { kind: 'ro', src: '/usr', dst: '/usr' },
            { kind: 'symlink', src: 'usr/bin', dst: '/bin' },
            { kind: 'symlink', src: 'usr/lib', dst: '/lib' },
            { kind: 'symlink', src: 'usr/lib64', dst: '/lib64' },
            { kind: 'ro', src: join(this.dir, 'bin'), dst: '/opt' },
            { kind: 'rw', src: this.workspace, dst: '/ws' },
          ]
        : [
            { kind: 'ro', src: '/usr', dst: '/usr' },
            { kind: 'ro', src: join(this.dir, 'bin'), dst: join(this.dir, 'bin') },
            { kind: 'rw', src: this.workspace, dst: this.workspace },
          ];
    return {
      id: 'test',
      level,
      profile: 'tool',
      uid: this.uid,
      gid: this.gid,
      args,
      env: { PATH: '/usr/bin:/bin', HOME: '/tmp' },
      cwd: level === 2 ? '/ws' : this.workspace,
      limits: { ...LIMITS, ...limits },
      guardsOff,
      ...rest,
      binds: [...base, ...binds],
    };
  }

  async run(args: string[], more: Partial<PlanOptions> = {}, stdin = ''): Promise<BoxOutcome> {
    const client = await this.client();
    try {
      return await client.run(this.plan(args, more), stdin);
    } finally {
      client.close();
    }
  }

  // A runner's view: libraries, Node, its program, the sockets; no workspace, no other programs.
  runnerPlan(argv: string[], dirs: { program: string; sockets: string }): WardenPlan {
    const plan = this.plan(['/opt/node/node', ...argv], { profile: 'runner' });
    // A copy: the binary that runs this test may be readable only by root.
    const node = join(this.dir, 'bin/node');
    if (!existsSync(node)) copyFileSync(process.execPath, node);
    return {
      ...plan,
      cwd: '/tmp',
      limits: { ...plan.limits, memoryBytes: 2 ** 30, nofile: 1024, pids: 64 },
      binds: [
        { kind: 'ro', src: '/usr/lib', dst: '/usr/lib' },
        { kind: 'ro', src: realpathSync('/lib64'), dst: '/lib64' },
        { kind: 'symlink', src: 'usr/lib', dst: '/lib' },
        { kind: 'ro', src: node, dst: '/opt/node/node' },
        { kind: 'ro', src: dirs.program, dst: '/opt/runner' },
        { kind: 'ro', src: dirs.sockets, dst: '/run/agentd/toold' },
      ],
    };
  }

  // Opens a box with the same paths and limits. The client that opened it closes it.
  async open(more: Partial<PlanOptions> = {}): Promise<WardenBox> {
    const { args: _args, env: _env, cwd: _cwd, ...plan } = this.plan([], more);
    const client = await this.client();
    const box = await client.open({ ...plan, limits: { ...plan.limits, wallMs: 600_000 } });
    if (box.kind !== 'opened') throw new Error(`not opened: ${JSON.stringify(box)}`);
    return { ...box, client };
  }

  command(box: bigint, args: string[], limits: Partial<PlanLimits> = {}): BoxCommand {
    const env = { PATH: '/usr/bin:/bin', HOME: '/tmp' };
    return { box, args, env, cwd: '/ws', limits: { ...LIMITS, ...limits } };
  }

  async exec(box: bigint, args: string[], limits: Partial<PlanLimits> = {}, stdin = '') {
    const client = await this.client();
    try {
      return await client.exec(this.command(box, args, limits), stdin);
    } finally {
      client.close();
    }
  }

  // Lists leftovers of boxes: processes, zombies, cgroups. The warden itself counts spares.
  async leftovers(): Promise<Leftovers> {
    const client = await this.client();
    for (;;) {
      const before = await client.features();
      const found = processesOf(this.dir).map(({ name }) => name);
      const { own, boxes } = cgroupsOf(this.dir);
      const zombies = zombiesOf(this.process?.pid ?? 0);
      const after = await client.features();
      // A spare was started meanwhile, or the kernel has not removed an empty cgroup: count again.
      if (JSON.stringify(before) !== JSON.stringify(after) || after.settling !== '0') continue;
      client.close();
      const cgroups = own.length === 0 ? 0 : boxes.length - Number(after.spares);
      const processes = found.filter((name) => /^(hostile|box-init|box-relay)$/.test(name));
      return { boxes: Number(after.boxes), processes, zombies, cgroups };
    }
  }

  async stop(): Promise<void> {
    const child = this.process;
    if (child && child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
    // A killed warden's janitor may still be at work there.
    for (let tries = 0; tries < 1_000 && processesOf(this.dir).length > 0; tries++) await sleep(20);
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export type Leftovers = { boxes: number; processes: string[]; zombies: number; cgroups: number };
export const NOTHING: Leftovers = { boxes: 0, processes: [], zombies: 0, cgroups: 0 };

export type WardenBox = OpenBoxRequest & { client: WardenClient };

export type PlanOptions = {
  level: number;
  binds: Bind[];
  limits: Partial<PlanLimits>;
  guardsOff: Guard[];
  profile: 'tool' | 'runner';
  cwd: string;
  uid: number;
  gid: number;
  groups: number[];
  env: Record<string, string>;
  egress: string;
  relays: Relay[];
  terminals: boolean;
  procEntries: boolean;
  pty: TerminalSize;
};

const AS_NOBODY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--'];
