// Grants at the warden: a directory that a person allowed is opened while it is the one they
// allowed, and nothing else is. The attacker swaps directories, writes grants of their own, or asks
// as sandboxd for more than opening.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeWarden, type Warden } from '../../src/daemons/sandboxd/adapters/warden.ts';
import { IS_ROOT, MODES, TestWarden, type WardenMode } from './support/warden.ts';

const DAEMONS = 61_100;

for (const mode of MODES) describe(`grants, the warden as ${mode}`, () => grantTests(mode));

function grantTests(mode: WardenMode): void {
  let warden: TestWarden;
  let grants: string;
  let repo: string;
  const owner = () => (mode === 'root' ? 61_234 : warden.uid);
  /** A file that the warden trusts. */
  const put = (name: string, text: string, uid = mode === 'root' ? 0 : warden.uid): string => {
    const file = join(grants, name);
    writeFileSync(file, text, { mode: 0o600 });
    if (IS_ROOT) chownSync(file, uid, uid);
    return file;
  };
  const textFor = (path: string): string => {
    const { dev, ino, uid } = lstatSync(path, { bigint: true });
    return `${path}\n${dev} ${ino} ${uid}\n`;
  };
  const own = (path: string): string => {
    mkdirSync(path, { recursive: true });
    if (IS_ROOT) chownSync(path, owner(), owner());
    return path;
  };
  const clearGrants = (): void => {
    rmSync(grants, { recursive: true, force: true });
    mkdirSync(grants, { mode: 0o700 });
    if (IS_ROOT && mode === 'user') chownSync(grants, warden.uid, warden.gid);
  };
  /** Writes into a directory from a box, by its name there. */
  const write = async (src: string, kind: 'rw' | 'ro' = 'rw') => {
    const script = kind === 'rw' ? 'echo x > /mine/made && cat /mine/made' : 'ls /mine';
    const end = await warden.run(['/usr/bin/sh', '-c', script], {
      binds: [{ kind, src, dst: '/mine' }],
    });
    if (end.kind !== 'refused') return end.kind === 'exit' && end.code === 0 ? 'done' : end;
    return end.message;
  };

  before(async () => {
    warden = await new TestWarden({ mode, build: 'sanitized' }).start();
    grants = join(warden.dir, 'run', 'grants');
    clearGrants();
    repo = own(join(warden.dir, 'person', 'repo'));
    own(join(repo, 'sub'));
  });
  after(() => warden?.stop());

  it('allows the directory and what is below it, for reading and writing', async () => {
    assert.match(String(await write(repo)), /outside the bounds of a box for writing/);
    put('one', textFor(repo));
    assert.equal(await write(repo), 'done');
    assert.equal(await write(join(repo, 'sub')), 'done');
    assert.equal(await write(repo, 'ro'), 'done');
    // Not what is above or beside it, or has a name that starts like it.
    own(`${repo}-not`);
    for (const path of [join(warden.dir, 'person'), `${repo}-not`, join(warden.dir, 'state')])
      assert.match(String(await write(path)), /outside the bounds/, path);
    rmSync(join(grants, 'one'));
    assert.match(String(await write(repo)), /outside the bounds/, 'at once');
  });

  it('one for reading allows reading, and nothing that could change it', async () => {
    put('one', textFor(repo).replace(/\n$/, ' read\n'));
    assert.equal(await write(repo, 'ro'), 'done');
    assert.match(String(await write(repo)), /outside the bounds of a box for writing/);
    const client = await makeWarden(warden.socket);
    await assert.rejects(client.assertGranted(repo), /is not granted/, 'no workspace');
    put('one', textFor(repo));
    assert.equal(await write(repo), 'done', 'control');
    await client.assertGranted(repo);
    client.close();
    for (const end of [' rea\n', ' read', ' read \n', '  read\n', ' read\n\n', ' read\n1 2\n']) {
      put('one', textFor(repo).replace(/\n$/, end));
      assert.match(String(await write(repo, 'ro')), /outside the bounds/, JSON.stringify(end));
    }
    rmSync(join(grants, 'one'));
  });

  it('no longer allows a name that another directory or a link has', async () => {
    put('one', textFor(repo));
    assert.equal(await write(repo), 'done', 'control');
    const moved = `${repo}.moved`;
    renameSync(repo, moved);
    own(repo);
    assert.match(String(await write(repo)), /is no longer the directory that was granted/);
    rmSync(repo, { recursive: true });
    symlinkSync(moved, repo);
    assert.match(String(await write(repo)), /which was granted: /, 'a link to the same one');
    rmSync(repo);
    renameSync(moved, repo);
    assert.equal(await write(repo), 'done', 'the same directory again');
    symlinkSync(warden.outside, join(repo, 'link'));
    assert.match(String(await write(join(repo, 'link'))), /contains a symbolic link/);
    rmSync(join(repo, 'link'));
    // An unprivileged warden has a user namespace, in which every other user is nobody.
    if (mode === 'root') {
      chownSync(repo, 61_777, 61_777);
      assert.match(String(await write(repo)), /is no longer the directory/, 'another owner');
      chownSync(repo, owner(), owner());
    }
  });

  it('is never fooled by a directory that is swapped while it is opened', async () => {
    put('one', textFor(repo));
    const decoy = own(join(warden.dir, 'person', 'decoy'));
    const stop = join(warden.dir, 'stop');
    const steps = 'mv repo away; mv decoy repo; mv repo decoy; mv away repo';
    const script = `cd "$0"; while [ ! -e "$1" ]; do ${steps}; done`;
    const args = ['-c', script, join(warden.dir, 'person'), stop];
    const swap = spawn('sh', args, { stdio: 'ignore' });
    const seen = new Set<string>();
    try {
      for (let round = 0; round < 200 && (round < 40 || !seen.has('done')); round++)
        seen.add(String(await write(repo)));
    } finally {
      writeFileSync(stop, '');
      await new Promise((resolve) => swap.once('close', resolve));
    }
    assert.ok(seen.has('done'), 'control: sometimes it is the right one');
    assert.ok(seen.size > 1, 'control: sometimes it is not');
    assert.ok(!existsSync(join(decoy, 'made')));
  });

  it('ignores files that others could have written, and malformed ones', async () => {
    clearGrants();
    const text = textFor(repo);
    const refused = async (why: string) =>
      assert.match(String(await write(repo)), /outside the bounds/, why);
    chmodSync(put('open', text), 0o622);
    await refused('others may write to it');
    rmSync(join(grants, 'open'));
    if (IS_ROOT) {
      put('foreign', text, DAEMONS);
      await refused('another user wrote it');
      rmSync(join(grants, 'foreign'));
    }
    writeFileSync(join(warden.dir, 'text'), text);
    symlinkSync(join(warden.dir, 'text'), join(grants, 'link'));
    await refused('a link');
    rmSync(join(grants, 'link'));
    put('.partial', text);
    await refused('not complete');
    const [path, numbers] = text.split('\n') as [string, string];
    const malformed = [
      '',
      path,
      `${path}\n`,
      `${path}\n${numbers}`,
      `${path}\n${numbers} \n`,
      `${path}\n${numbers}\nmore\n`,
      `${path}\n ${numbers}\n`,
      `${path}\n-1 -1 -1\n`,
      `${path}\n${numbers.replaceAll(' ', '  ')}\n`,
      `${path}\n99999999999999999999 1 1\n`,
      `${path.slice(1)}\n${numbers}\n`,
      `${path}\0\n${numbers}\n`,
      `/\n${textFor('/').split('\n')[1]}\n`,
      `${path}${'x'.repeat(5_000)}\n${numbers}\n`,
    ];
    malformed.forEach((broken, at) => void put(`broken-${at}`, broken));
    await refused('malformed');
    put('whole', text);
    assert.equal(await write(repo), 'done', 'control: among the others');
    chmodSync(grants, 0o777);
    await refused('others may write to the directory');
    chmodSync(grants, 0o700);
    assert.equal(await write(repo), 'done', 'control');
  });

  it('lets sandboxd ask and revoke, and nothing that changes owners or deletes', async () => {
    clearGrants();
    put('one', textFor(repo));
    put('other', textFor(join(repo, 'sub')));
    const link: Warden = makeWarden(warden.socket);
    try {
      await link.assertGranted(repo);
      await link.assertGranted(join(repo, 'sub'));
      assert.ok((await link.measure(repo)).entries > 0);
      await assert.rejects(link.assertGranted(warden.workspace), {
        code: 'denied',
        message: /is not granted/,
      });
      await assert.rejects(link.assertGranted(join(warden.dir, 'person')), { code: 'denied' });
      const before = lstatSync(repo);
      for (const uid of [null, warden.uid])
        await assert.rejects(link.chown({ path: repo, uid, gid: warden.gid }), {
          message: mode === 'root' ? /outside the bounds for chown/ : /without root/,
        });
      await assert.rejects(link.deleteTree(join(repo, 'sub')), /outside the bounds for deleting/);
      assert.deepEqual(
        [lstatSync(repo).uid, lstatSync(repo).gid, lstatSync(repo).mode],
        [before.uid, before.gid, before.mode],
      );
      assert.equal(await link.revokeGrant(join(repo, 'su')), 0);
      assert.equal(await link.revokeGrant(repo), 1);
      await assert.rejects(link.assertGranted(repo), { code: 'denied' });
      await link.assertGranted(join(repo, 'sub'));
    } finally {
      link.close();
    }
  });

  it('allows nothing where the site names all workspaces itself', async () => {
    const narrow = await new TestWarden({ mode, bounds: ['grants 0'] }).start();
    const place = join(narrow.dir, 'place');
    mkdirSync(place);
    if (IS_ROOT) chownSync(place, owner(), owner());
    const dir = join(narrow.dir, 'run', 'grants');
    mkdirSync(dir, { mode: 0o700 });
    writeFileSync(join(dir, 'one'), textFor(place), { mode: 0o600 });
    if (IS_ROOT && mode === 'user')
      for (const path of [dir, join(dir, 'one')]) chownSync(path, narrow.uid, narrow.gid);
    const binds = [{ kind: 'rw' as const, src: place, dst: '/mine' }];
    const end = await narrow.run(['/usr/bin/true'], { binds });
    assert.match(JSON.stringify(end), /outside the bounds of a box for writing/);
    const link = makeWarden(narrow.socket);
    await assert.rejects(link.assertGranted(place), /is not granted/);
    link.close();
    await narrow.stop();
  });
}
