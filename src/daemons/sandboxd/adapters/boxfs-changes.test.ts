// Tests the list of changes in boxfs under the sanitizers, on plain directories that look like the
// parts of an overlay, and on a real overlay where this host can mount one.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { afterEach, before, beforeEach, describe, it } from 'node:test';
import { buildBoxfs, startBoxfs } from '../../../../test/support/boxfs.ts';
import { systemClock } from '../../../platform/clock.ts';
import type { LayerChange } from './boxfs-changes.ts';
import { boxfsArgs, openBoxfs } from './boxfs-client.ts';
import type { LayerPlaces } from './boxfs-layers.ts';

let top: string;
before(() => void buildBoxfs('sanitized'));
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'boxfs-changes-'));
  for (const name of ['merged', 'upper', 'lower', 'work']) mkdirSync(join(top, name));
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

const at = (...parts: string[]): string => join(top, ...parts);
const placesOf = (): LayerPlaces => ({
  merged: at('merged'),
  upper: at('upper'),
  lower: at('lower'),
});
const rootsOf = ({ merged, upper, lower }: LayerPlaces) =>
  [merged, upper, lower].map((path) => ({ path, writable: false }));

async function listFrom(stream: Duplex, pageMax?: number): Promise<LayerChange[]> {
  const places = placesOf();
  const client = await openBoxfs({ stream, roots: rootsOf(places), clock: systemClock() });
  try {
    return await Array.fromAsync(client.listChanges(places, pageMax));
  } finally {
    client.close();
  }
}

async function list(pageMax?: number): Promise<LayerChange[]> {
  const started = startBoxfs(boxfsArgs(rootsOf(placesOf())), 'sanitized');
  try {
    return await listFrom(started.stream, pageMax);
  } finally {
    await started.stop();
    assert.doesNotMatch(started.stderr(), /Sanitizer|runtime error/);
  }
}

const summarize = (changes: LayerChange[]) => changes.map(({ kind, path }) => `${kind} ${path}`);

/** Writes a file on the given sides. */
function put(path: string, content: string, ...sides: string[]): void {
  for (const side of sides) {
    mkdirSync(join(at(side, path), '..'), { recursive: true });
    writeFileSync(at(side, path), content);
  }
}

describe('the list of changes', () => {
  it('has each kind, sorted, with both sides', async () => {
    put('same', 'a', 'merged', 'upper', 'lower');
    put('edited', 'old', 'lower');
    put('edited', 'new', 'merged', 'upper');
    put('made/deep/file', 'x', 'merged', 'upper');
    put('gone/one', '1', 'lower');
    put('gone/two', '2', 'lower');
    put('tool', '#!', 'merged', 'upper', 'lower');
    chmodSync(at('merged/tool'), 0o4755);
    put('turned', 'file', 'lower');
    put('turned/inside', 'x', 'merged', 'upper');
    symlinkSync('/etc/passwd', at('merged/way-out'));
    const changes = await list();
    assert.deepEqual(summarize(changes), [
      'modified edited',
      'deleted gone',
      'deleted gone/one',
      'deleted gone/two',
      'added made',
      'added made/deep',
      'added made/deep/file',
      'mode tool',
      'replaced turned',
      'added turned/inside',
      'added way-out',
    ]);
    const find = (path: string) => changes.find((change) => change.path === path)!;
    assert.notEqual(find('edited').before?.sha256, find('edited').after?.sha256);
    assert.equal(find('edited').after?.sizeBytes, 3);
    assert.equal(find('gone/one').after, undefined);
    assert.equal(find('made').before, undefined);
    assert.equal(find('tool').after!.mode & 0o7777, 0o4755);
    assert.equal(find('way-out').after?.linkTarget, '/etc/passwd');
  });

  it('is the same in pages of one change', async () => {
    for (const name of ['a/b/c', 'a-b/c', 'a.d', 'a/b.c', 'z']) put(name, name, 'merged', 'upper');
    put('a0/old', 'x', 'lower');
    const all = await list();
    assert.equal(all.length, 10);
    assert.deepEqual(await list(1), all);
  });

  it('is by content where two files only look alike', async () => {
    put('x', 'one', 'merged');
    put('x', 'two', 'lower');
    for (const side of ['merged', 'lower']) utimesSync(at(side, 'x'), 1, 1);
    assert.deepEqual(summarize(await list()), ['modified x']);
  });

  it('says what is no ordinary file', async () => {
    put('two', 'x', 'merged', 'upper');
    linkSync(at('merged/two'), at('merged/names'));
    execFileSync('mkfifo', [at('merged/pipe')]);
    const changes = await list();
    assert.deepEqual(summarize(changes), ['added names', 'added pipe', 'added two']);
    assert.ok(changes[0]!.isHardLinked);
    assert.equal(changes[1]!.after!.mode & 0o170000, 0o010000);
    assert.equal(changes[1]!.after!.sha256, null);
  });

  it('goes on behind a directory that is too deep, or whose path is too long', async () => {
    const deep = Array.from({ length: 70 }, () => 'd');
    put(`deep/${deep.join('/')}/x`, 'x', 'merged', 'upper');
    mkdirSync(at('merged', 'long'));
    const name = 'n'.repeat(250);
    const long = Array.from({ length: 16 }, () => `mkdir ${name}; cd ${name}`).join('; ');
    execFileSync('sh', ['-ec', `cd ${at('merged', 'long')}; ${long}`]);
    put('z', 'z', 'merged', 'upper');
    const changes = await list();
    const closed = changes.filter(({ isClosed }) => isClosed).map(({ path }) => path);
    assert.deepEqual(
      closed.map((path) => [path.split('/')[0], path.split('/').length]),
      [
        ['deep', 65],
        ['long', 17],
      ],
    );
    assert.equal(changes.at(-1)!.path, 'z');
    assert.equal(changes.length, 65 + 17 + 1);
    assert.deepEqual(await list(1), changes);
  });

  it('follows no link to a directory', async () => {
    put('real/secret', 'x', 'lower', 'merged');
    mkdirSync(at('upper/real'));
    symlinkSync('real', at('merged/alias'));
    assert.deepEqual(summarize(await list()), ['added alias']);
  });
});

const overlayOptions = () =>
  `userxattr,lowerdir=${at('lower')},upperdir=${at('upper')},workdir=${at('work')}`;
/** Mounts an overlay in a namespace of its own, changes it there, and runs boxfs in it. */
const inOverlay = (script: string): string[] => [
  '-Urm',
  'sh',
  '-ec',
  `mount -t overlay overlay -o ${overlayOptions()} ${at('merged')}
   cd ${at('merged')}; { ${script}; } >&2; cd /; exec "$0" "$@"`,
];
const canMount = (): boolean => {
  const dir = mkdtempSync(join(tmpdir(), 'boxfs-probe-'));
  for (const name of ['l', 'u', 'w', 'm']) mkdirSync(join(dir, name));
  const options = `userxattr,lowerdir=${dir}/l,upperdir=${dir}/u,workdir=${dir}/w`;
  const ran = spawnSync('unshare', [
    '-Urm',
    'mount',
    '-t',
    'overlay',
    'o',
    '-o',
    options,
    `${dir}/m`,
  ]);
  rmSync(dir, { recursive: true, force: true });
  return ran.status === 0;
};

describe('changes in an overlay', { skip: canMount() ? false : 'no overlay here' }, () => {
  it('are what the agent did, and nothing it only read', async () => {
    put('src/main', 'old', 'lower');
    put('src/kept', 'kept', 'lower');
    put('src/touched', 'same', 'lower');
    put('lib/deep/a', 'a', 'lower');
    put('old/one', '1', 'lower');
    put('again/was', '1', 'lower');
    const script = [
      'echo new > src/main; cat src/kept lib/deep/a; touch src/touched; chmod 755 src/kept',
      'rm -r old again; mkdir again; echo 2 > again/is; ln -s /etc/passwd out',
    ].join('; ');
    const args = [...inOverlay(script), buildBoxfs(), ...boxfsArgs(rootsOf(placesOf()))];
    const child = spawn('unshare', args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const stream = Duplex.from({ readable: child.stdout, writable: child.stdin });
    const changes = await listFrom(stream);
    assert.deepEqual(summarize(changes), [
      'added again/is',
      'deleted again/was',
      'deleted old',
      'deleted old/one',
      'added out',
      'mode src/kept',
      'modified src/main',
    ]);
    // The overlay's work directory has a mode that only its owner can remove.
    chmodSync(at('work/work'), 0o700);
  });
});
