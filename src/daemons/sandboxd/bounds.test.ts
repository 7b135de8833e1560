// Tests the bounds file, and the list of paths with secrets.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { secretPaths } from './adapters/host-paths.ts';
import { boundsText } from './bounds.ts';
import { sandboxdConfig } from './config.ts';

/** The daemons' user beside a root warden, and a person with her own warden. */
const DAEMONS = { uid: 265_534, gid: 265_534, wardenIsRoot: true };
const ALICE = { uid: 1_000, gid: 1_000, wardenIsRoot: false };

const dir = realpathSync(mkdtempSync(join(tmpdir(), 'sandboxd-')));
after(() => rmSync(dir, { recursive: true, force: true }));
const runner = join(dir, 'runner.mjs');
writeFileSync(runner, '');

test('the ranges, the client, and paths without links', (t) => {
  const outside = realpathSync(mkdtempSync(join(tmpdir(), 'bounds-')));
  t.after(() => rmSync(outside, { recursive: true }));
  mkdirSync(join(dir, 'data'), { recursive: true });
  symlinkSync(join(dir, 'data'), join(outside, 'link'));
  const text = boundsText({
    config: { ...sandboxdConfig.parse({ write_roots: [join(outside, 'link')] }), runner },
    stateDir: dir,
    runtimeDir: dir,
    host: DAEMONS,
    clientPid: 42,
  });
  const lines = text.trimEnd().split('\n');
  assert.ok(lines.includes('uid 200000 265535'));
  assert.ok(lines.includes('uid 300000 1299999'), 'a tree with layers has its own user');
  assert.ok(lines.includes('gid 200000 1299999'));
  assert.ok(lines.includes('client_uid 265534') && lines.includes('client_gid 265534'));
  assert.ok(lines.includes('client_pid 42'));
  assert.ok(lines.includes(`own ${dir}/workspaces`));
  assert.ok(lines.includes(`own ${dir}/homes`) && lines.includes(`share ${dir}/workspaces`));
  assert.ok(!lines.includes(`share ${dir}/data`), 'a writable path is not shared');
  assert.ok(lines.includes(`ro ${runner}`));
  for (const daemon of ['agentd', 'toold', 'modeld'])
    assert.ok(lines.includes(`ro ${dir}/${daemon}`));
  assert.ok(lines.includes(`rw ${dir}/workspaces`) && lines.includes(`rw ${dir}/data`));
  for (const name of ['egressd', 'modeld']) assert.ok(lines.includes(`relay ${dir}/${name}`));
  assert.ok(!lines.some((line) => /^(ro|rw) \/$/.test(line)), 'never the whole host');
  assert.ok(!lines.some((line) => line.startsWith('rw /usr') || line === 'rw /'));
  const single = boundsText({
    config: { ...sandboxdConfig.parse({}), runner },
    stateDir: dir,
    runtimeDir: dir,
    host: ALICE,
  });
  assert.match(single, /^uid 1000 1000\ngid 1000 1000\nclient_uid 1000\nclient_gid 1000\nboxes/);
  assert.doesNotMatch(single, /^(own|share) /m, 'there are no other users');
});

test('A6 a link where agents or daemons write declares nothing', (t) => {
  const outside = realpathSync(mkdtempSync(join(tmpdir(), 'bounds-')));
  t.after(() => rmSync(outside, { recursive: true }));
  mkdirSync(join(outside, 'ws/docs'), { recursive: true });
  symlinkSync('ws', join(outside, 'alias'));
  const state = join(outside, 'state');
  mkdirSync(state);
  const linesFor = (given: Record<string, string[]>, stateDir = state) =>
    boundsText({
      config: { ...sandboxdConfig.parse(given), runner },
      stateDir,
      runtimeDir: dir,
      host: DAEMONS,
    }).split('\n');
  const workspace_roots = [join(outside, 'alias')];
  const asked = [
    { workspace_roots, read_roots: [join(outside, 'ws/docs')] },
    { workspace_roots, write_roots: [join(outside, 'alias/docs')] },
    { read_roots: [join(state, 'shown')] },
  ];
  assert.ok(linesFor(asked[0]!).includes(`ro ${outside}/ws/docs`), 'control');
  assert.ok(
    linesFor(asked[0]!).includes(`rw ${outside}/ws`),
    'the operator’s own link is followed',
  );
  rmSync(join(outside, 'ws/docs'), { recursive: true });
  symlinkSync('/etc', join(outside, 'ws/docs'));
  symlinkSync('/etc', join(state, 'shown'));
  for (const given of asked)
    assert.throws(() => linesFor(given), { code: 'bad_config', message: /agents may change/ });
  const odd = join(outside, 'a\nrw ');
  mkdirSync(odd);
  assert.throws(() => linesFor({}, odd), { code: 'bad_config', message: /line break/ });
});

test('secrets are those of every home on the host, and our own state', () => {
  const file = join(dir, 'passwd');
  writeFileSync(file, 'root:x:0:0::/root:/bin/sh\nann:x:1:1::/home/ann:/bin/sh\nd:x:2:2::/:/\n');
  const paths = secretPaths(['/state'], file);
  for (const path of ['/state', join('/root', '.ssh'), '/home/ann/.aws', '/etc/shadow'])
    assert.ok(paths.includes(path), path);
  assert.ok(!paths.some((path) => path.startsWith('/.')));
});
