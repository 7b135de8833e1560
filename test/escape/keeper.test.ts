// The keeper with launch specs of our own: what the warden and the runtime inherit from the process
// that started it, and whether links in the daemons' directories can mislead root.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { buildKeeper, IS_ROOT } from './support/warden.ts';

const DAEMONS = 61_100;

type TestKeeper = { dir: string; run(): void; read(name: string): string };

/** A keeper whose warden and runtime are scripts that record what they inherit. */
function keeperIn(t: TestContext): TestKeeper {
  const dir = realpathSync(mkdtempSync('/tmp/keeper-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  chmodSync(dir, 0o755);
  for (const name of ['out', 'logs']) {
    mkdirSync(join(dir, name));
    chownSync(join(dir, name), DAEMONS, DAEMONS);
  }
  const script = (name: string, lines: string[]): string => {
    writeFileSync(join(dir, name), ['#!/bin/sh', ...lines, ''].join('\n'));
    chmodSync(join(dir, name), 0o755);
    return join(dir, name);
  };
  const listFds = (name: string) => `cd /proc/self/fd && echo * >${dir}/out/${name}`;
  const warden = script('warden', [listFds('warden'), 'echo ready', 'exec >&-', 'exec sleep 60']);
  const runtime = script('runtime', [listFds('runtime'), `id -G >${dir}/out/groups`]);
  const spec = [
    'uid',
    DAEMONS,
    'gid',
    DAEMONS,
    'user',
    'daemons',
    'ready-fd',
    2,
    'single-client',
    1,
    'warden',
    warden,
    'warden-dir',
    join(dir, 'rt.warden'),
    'bounds',
    'boxes 1\n',
    'runtime-dir',
    join(dir, 'rt'),
    'halt',
    join(dir, 'HALT'),
    'state',
    join(dir, 'state'),
    'no-grants',
    'none here',
    'in-use-error',
    '{}',
    'warden-log',
    join(dir, 'logs/warden.log'),
    '--',
    runtime,
  ];
  writeFileSync(join(dir, 'spec'), spec.map((word) => `${word}\0`).join(''));
  const prepare = script('prepare', [`cat ${dir}/spec >&$2`]);
  return {
    dir,
    run() {
      // In root's group too; with an inherited descriptor, and one whose number is above the usual
      // limit of a closing loop.
      const open =
        'ulimit -n 4096; exec 7</etc/shadow 3000</etc/shadow; exec setpriv --groups 0 "$0" "$1"';
      const ran = spawnSync('bash', ['-c', open, buildKeeper(), prepare], { encoding: 'utf8' });
      assert.equal(ran.status, 0, ran.stderr);
    },
    read: (name) => readFileSync(join(dir, 'out', name), 'utf8').trim(),
  };
}

const skip = IS_ROOT ? false : 'needs root';
describe('the keeper', { skip }, () => {
  it('C21 no descriptor of the parent process reaches the warden or the runtime', (t) => {
    const keeper = keeperIn(t);
    keeper.run();
    for (const name of ['warden', 'runtime']) {
      const numbers = keeper
        .read(name)
        .split(' ')
        .map(Number)
        .sort((a, b) => a - b);
      // The listing shell has the script itself open, as 10 or above.
      assert.deepEqual(numbers.slice(0, 3), [0, 1, 2], 'control');
      for (const number of [7, 3000]) assert.ok(!numbers.includes(number), `${name}: ${number}`);
    }
    assert.equal(keeper.read('groups'), String(DAEMONS), 'none of its groups');
  });

  it('the warden’s log is opened with the rights of the daemons alone', (t) => {
    const keeper = keeperIn(t);
    keeper.run();
    assert.equal(statSync(join(keeper.dir, 'logs/warden.log')).uid, DAEMONS, 'control');
    // A directory that root's group may write to, where the daemons' own was.
    const ofRoot = join(keeper.dir, 'of-root');
    mkdirSync(ofRoot);
    chmodSync(ofRoot, 0o770);
    rmSync(join(keeper.dir, 'logs'), { recursive: true });
    symlinkSync(ofRoot, join(keeper.dir, 'logs'));
    keeper.run();
    assert.ok(!existsSync(join(ofRoot, 'warden.log')));
    for (const name of ['rt', 'rt.warden', 'rt.warden.lock'])
      assert.ok(!existsSync(join(keeper.dir, name)), name);
  });

  it('removes what killed runtimes left, and nothing of live ones', async (t) => {
    const keeper = keeperIn(t);
    const outside = join(keeper.dir, 'out', 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'file'), '');
    for (const path of [outside, join(outside, 'file')]) chownSync(path, DAEMONS, DAEMONS);
    const left = (name: string, uid: number): string => {
      const dir = join(keeper.dir, name);
      mkdirSync(join(dir, 'agentd', 'operator'), { recursive: true });
      writeFileSync(join(dir, 'agentd', 'operator', 'agentd.sock'), '');
      symlinkSync(outside, join(dir, 'link'));
      spawnSync('chown', ['-hR', `${uid}:${uid}`, dir]);
      mkdirSync(`${dir}.warden`);
      writeFileSync(join(`${dir}.warden`, 'bounds'), '');
      writeFileSync(`${dir}.warden.lock`, '');
      return dir;
    };
    const dead = left('aaaaaaa1', DAEMONS);
    const unlocked = left('aaaaaaa2', DAEMONS);
    rmSync(`${unlocked}.warden.lock`);
    const alive = left('aaaaaaa3', DAEMONS);
    const cleared = left('aaaaaaa4', DAEMONS);
    writeFileSync(join(`${cleared}.warden`, 'lock'), '');
    const others = [left('aaaaaaa5', DAEMONS + 1), left('other', DAEMONS)];
    await holding(t, `${alive}.warden.lock`);
    await holding(t, join(`${cleared}.warden`, 'lock'));
    keeper.run();
    for (const dir of [dead, unlocked])
      for (const name of [dir, `${dir}.warden`, `${dir}.warden.lock`])
        assert.ok(!existsSync(name), `${name} is gone`);
    for (const dir of [alive, cleared, ...others])
      for (const name of [join(dir, 'agentd/operator/agentd.sock'), `${dir}.warden/bounds`])
        assert.ok(existsSync(name), `${name} stays`);
    assert.ok(existsSync(join(outside, 'file')), 'links are not followed');
  });
});

/** Holds the lock of this file in another process until the test ends. */
async function holding(t: TestContext, file: string): Promise<void> {
  const holder = spawn('flock', ['-x', file, 'sh', '-c', 'echo held; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  t.after(() => process.kill(-holder.pid!, 'SIGKILL'));
  await once(holder.stdout, 'data');
}
