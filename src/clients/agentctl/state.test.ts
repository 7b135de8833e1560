// The state directory is found by platform's rules.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultStateDir } from '../../platform/state-dir.ts';
import { connectRuntime } from './runtime.ts';
import { findStateDir, isAlive } from './state.ts';

test('without --state it is where the runtime itself would look', () => {
  const home = { HOME: '/home/ada' };
  for (const env of [
    home,
    { ...home, AGENTD_STATE: '/var/x' },
    { ...home, AGENTD_STATE: 'relative/x' },
    { ...home, AGENTD_STATE: '' },
    { ...home, XDG_STATE_HOME: '/xdg' },
    { ...home, XDG_STATE_HOME: '/xdg', AGENTD_STATE: '/var/x' },
    { ...home, XDG_STATE_HOME: '' },
    { HOME: '' },
  ])
    assert.equal(findStateDir(undefined, env), defaultStateDir(env), JSON.stringify(env));
  // Empty is not set: it never means the root of the file system.
  assert.equal(findStateDir(undefined, { HOME: '' }), `${userInfo().homedir}/.local/state/agentd`);
});

test('--state wins over the environment and becomes absolute', () => {
  assert.equal(findStateDir('/mine', { AGENTD_STATE: '/other' }), '/mine');
  assert.equal(findStateDir('mine', {}), `${process.cwd()}/mine`);
});

test('a process is alive or it is not', () => {
  assert.equal(isAlive(process.pid), true);
  assert.equal(isAlive(2 ** 30), false);
});

test('the key is not sent where another user could listen', () => {
  const base = mkdtempSync(join(tmpdir(), 'actl-s-'));
  try {
    const runtimeDir = join(base, 'shared', '01234567');
    writeFileSync(join(base, 'operator.key'), 'a key');
    writeFileSync(join(base, 'runtime.json'), JSON.stringify({ runtime_dir: runtimeDir }));
    assert.throws(() => connectRuntime(base), { code: 'runtime_down' });
    mkdirSync(runtimeDir, { recursive: true, mode: 0o700 });
    connectRuntime(base);
    chmodSync(join(base, 'shared'), 0o777);
    assert.throws(() => connectRuntime(base), { code: 'bad_config' });
  } finally {
    rmSync(base, { recursive: true });
  }
});

const isRoot = process.getuid?.() === 0;
/** Root may read everything, so root drops to another user first. */
function asOrdinaryUser(work: () => void): void {
  if (!isRoot) return void work();
  process.seteuid!(65_534);
  try {
    work();
  } finally {
    process.seteuid!(0);
  }
}

test('a state directory this user may not read is not reported as missing', () => {
  const base = mkdtempSync(join(tmpdir(), 'actl-s-'));
  try {
    assert.throws(() => connectRuntime(base), { code: 'runtime_down' });
    chmodSync(base, 0o000);
    asOrdinaryUser(() => assert.throws(() => connectRuntime(base), { code: 'unauthenticated' }));
  } finally {
    chmodSync(base, 0o700);
    rmSync(base, { recursive: true });
  }
});
