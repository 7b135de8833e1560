// The daemons' user can make the warden chown its own directories below the bounds to agents and
// their groups, and nothing else. Hostile: every request comes from that user.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { DirectoryOwner } from '../../src/daemons/sandboxd/adapters/plan.ts';
import {
  makeWarden,
  type Warden as WardenLink,
} from '../../src/daemons/sandboxd/adapters/warden.ts';
import { processesOf } from './support/host.ts';
import { IS_ROOT, TestWarden } from './support/warden.ts';

const DAEMONS = 61_100;
const AGENT = 61_234;
const OTHER = 61_235;
const GROUP = 61_236;

const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};

/** The peer credentials are those at the time of the connect. */
function as<T>(uid: number, work: () => T): T {
  process.setegid!(uid);
  process.seteuid!(uid);
  try {
    return work();
  } finally {
    process.seteuid!(0);
    process.setegid!(0);
  }
}

const skip = IS_ROOT ? false : 'needs root, to chown';
describe('the warden chowns directories', { skip }, () => {
  let warden: TestWarden;
  let link: WardenLink;
  let homes: string;
  let spaces: string;
  const own = (owned: DirectoryOwner) => as(DAEMONS, () => link.chown(owned));
  const about = (path: string) => {
    const { uid, gid, mode } = lstatSync(path);
    return { uid, gid, mode: mode & 0o7777 };
  };
  const make = (path: string, uid = DAEMONS): string => {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    chownSync(path, uid, uid);
    return path;
  };

  before(async () => {
    if (!IS_ROOT) return;
    const bounds = (dir: string) => [
      `uid ${AGENT} ${OTHER}`,
      `gid ${AGENT} ${GROUP}`,
      `client_gid ${DAEMONS}`,
      `relay ${dir}/closed/runtime/egress`,
      `own ${dir}/homes`,
      `share ${dir}/spaces`,
      `rw ${dir}/homes`,
    ];
    warden = await new TestWarden({
      mode: 'root',
      build: 'sanitized',
      clientUid: DAEMONS,
      bounds,
    }).start();
    homes = make(join(warden.dir, 'homes'));
    spaces = make(join(warden.dir, 'spaces'));
    link = makeWarden(warden.socket);
  });
  after(async () => {
    link?.close();
    await warden?.stop();
  });

  it('gives a home to its agent, repeatedly', async () => {
    const path = make(join(homes, 'coder'));
    for (const _ of [1, 2]) {
      assert.equal(await own({ path, uid: AGENT, gid: AGENT }), 0);
      assert.deepEqual(about(path), { uid: AGENT, gid: AGENT, mode: 0o700 });
    }
  });

  it('gives a tree to a group: owners stay, links are not followed, hard links are skipped', async () => {
    const path = make(join(spaces, 'tree'));
    const file = (name: string, mode: number, uid = OTHER) => {
      writeFileSync(join(path, name), 'x');
      chownSync(join(path, name), uid, uid);
      chmodSync(join(path, name), mode);
      return join(path, name);
    };
    make(join(path, 'sub'), OTHER);
    const inSub = file('sub/file', 0o600);
    const program = file('program', 0o4755);
    const groups = file('groups-program', 0o2755);
    symlinkSync('/etc', join(path, 'link'));
    const outside = join(warden.outside, 'named-twice');
    writeFileSync(outside, 'x', { mode: 0o600 });
    linkSync(outside, join(path, 'second-name'));
    const etc = about('/etc');
    assert.equal(await own({ path, uid: null, gid: GROUP }), 1, 'the hard-linked file');
    assert.deepEqual(about(path), { uid: DAEMONS, gid: GROUP, mode: 0o2770 });
    assert.deepEqual(about(join(path, 'sub')), { uid: OTHER, gid: GROUP, mode: 0o2770 });
    assert.deepEqual(about(inSub), { uid: OTHER, gid: GROUP, mode: 0o660 });
    assert.deepEqual(about(program), { uid: OTHER, gid: GROUP, mode: 0o775 }, 'no set-uid bit');
    assert.deepEqual(about(groups), { uid: OTHER, gid: GROUP, mode: 0o775 }, 'no set-gid bit');
    assert.equal(about(join(path, 'link')).gid, GROUP);
    assert.deepEqual(about(outside), { uid: 0, gid: 0, mode: 0o600 });
    assert.deepEqual(about('/etc'), etc);
  });

  it('refuses other directories and other owners', async () => {
    const home = make(join(homes, 'mine'));
    const roots = make(join(homes, 'roots'), 0);
    const others = make(join(homes, 'others'), OTHER);
    const space = make(join(spaces, 'mine'));
    symlinkSync('/etc', join(homes, 'link'));
    symlinkSync(warden.outside, join(spaces, 'link'));
    make(join(warden.outside, 'inner'));
    writeFileSync(join(homes, 'file'), '');
    const ownedBy = (path: string, uid = AGENT, gid = AGENT): DirectoryOwner => ({
      path,
      uid,
      gid,
    });
    const share = (path: string, gid = GROUP): DirectoryOwner => ({ path, uid: null, gid });
    const tries: [DirectoryOwner, RegExp, watched: string][] = [
      [ownedBy('/etc'), /outside the bounds for chown/, '/etc'],
      [ownedBy('/root'), /outside the bounds for chown/, '/root'],
      [share('/etc'), /outside the bounds for chown/, '/etc'],
      [ownedBy(homes), /outside the bounds for chown/, homes],
      [ownedBy(`${homes}-not`), /outside the bounds for chown/, warden.dir],
      [ownedBy(space), /outside the bounds for chown/, space],
      [share(home), /outside the bounds for chown/, home],
      [share(warden.workspace), /outside the bounds for chown/, warden.workspace],
      [ownedBy(`${homes}/../outside`), /not an absolute, normalized path/, warden.outside],
      [ownedBy('homes'), /not an absolute, normalized path/, homes],
      [ownedBy(join(homes, 'link')), /symbolic link/, '/etc'],
      [ownedBy(join(homes, 'link', 'apt')), /symbolic link/, '/etc'],
      [share(join(spaces, 'link')), /symbolic link/, warden.outside],
      [share(join(spaces, 'link', 'inner')), /symbolic link/, join(warden.outside, 'inner')],
      [ownedBy(join(homes, 'file')), /not a directory/, join(homes, 'file')],
      [ownedBy(join(homes, 'none')), /No such file/, homes],
      [ownedBy(roots), /is owned by uid 0/, roots],
      [ownedBy(others), new RegExp(`is owned by uid ${OTHER}`), others],
      [ownedBy(home, 0), /uid or gid is invalid/, home],
      [ownedBy(home, AGENT, 0), /uid or gid is invalid/, home],
      [share(space, 0), /uid or gid is invalid/, space],
      [ownedBy(home, 1_000), /not in the range/, home],
      [ownedBy(home, AGENT, 1_000), /gid 1000 is not allowed/, home],
      [ownedBy(home, DAEMONS), /not in the range/, home],
      [ownedBy(home, AGENT, DAEMONS), /is not allowed/, home],
      [share(space, 1_000), /gid 1000 is not allowed/, space],
      [share(space, DAEMONS), /is not allowed/, space],
    ];
    for (const [owned, why, watched] of tries) {
      const before = about(watched);
      await assert.rejects(own(owned), { message: why }, JSON.stringify(owned));
      assert.deepEqual(about(watched), before, JSON.stringify(owned));
    }
    // The same paths in valid requests.
    assert.equal(await own(ownedBy(home)), 0);
    assert.equal(await own(share(space)), 0);
  });

  it('refuses a box with the daemons’ user or group', async () => {
    const client = (plan: object) =>
      as(DAEMONS, () => link.start({ ...warden.plan(['/usr/bin/true']), ...plan }));
    await assert.rejects(client({ uid: DAEMONS }), { code: 'denied' });
    await assert.rejects(client({ gid: DAEMONS }), { code: 'denied' });
    await assert.rejects(client({ groups: [DAEMONS] }), { code: 'denied' });
    const command = await client({});
    command.discard();
    const exit = await command.ended;
    assert.equal(exit === 'gone' ? exit : exit.exitCode, 0);
  });

  it('the egress relay runs as the daemons’ user, without capabilities', async () => {
    // Owned by root and closed to that user; only its contents belong to the user.
    mkdirSync(join(warden.dir, 'closed'), { mode: 0o700 });
    const dir = make(join(warden.dir, 'closed', 'runtime'));
    const egress = join(make(join(dir, 'egress')), 'proxy.sock');
    const carriers: string[] = [];
    const server = createServer((socket) => {
      const relays = processesOf(warden.dir).filter(({ name }) => name === 'box-relay');
      carriers.push(...relays.map(({ pid }) => read(`/proc/${pid}/status`)));
      socket.on('error', () => undefined).end('outside\n');
    });
    await new Promise<void>((resolve) => server.listen(egress, resolve));
    chownSync(egress, DAEMONS, DAEMONS);
    try {
      const script = 'exec 3<>/dev/tcp/127.0.0.1/3128; cat <&3';
      const plan = { ...warden.plan(['/usr/bin/bash', '-c', script]), egress };
      const command = await as(DAEMONS, () => link.start(plan));
      let output = '';
      for await (const { bytes } of command.readOutput()) output += bytes.toString();
      assert.equal(output, 'outside\n');
      const own = carriers.filter((text) => text.includes(`Uid:\t${DAEMONS}\t${DAEMONS}`));
      assert.equal(own.length, 1);
      assert.match(own[0]!, /^CapPrm:\t0+$/m);
      assert.match(own[0]!, /^CapBnd:\t0+$/m);
      assert.match(own[0]!, /^NoNewPrivs:\t1$/m);
    } finally {
      server.close();
    }
  });

  it('accepts requests from the daemons only: not from root, not from an agent', async () => {
    const path = make(join(homes, 'caller'));
    for (const uid of [0, AGENT]) {
      const other = makeWarden(warden.socket);
      const response = as(uid, () => other.chown({ path, uid: AGENT, gid: AGENT }));
      await assert.rejects(response, uid === 0 ? /is not the client/ : /is not reachable/);
      other.close();
    }
    assert.equal(about(path).uid, DAEMONS);
    assert.equal(await own({ path, uid: AGENT, gid: AGENT }), 0);
  });

  it('a directory replaced by a link during the walk never leads out', async () => {
    const path = make(join(spaces, 'race'));
    for (let i = 0; i < 50; i++) mkdirSync(join(path, `before-${i}`));
    const target = make(join(warden.outside, 'target'), 0);
    writeFileSync(join(target, 'file'), 'x', { mode: 0o600 });
    const swap = spawn(
      'sh',
      ['-c', 'cd "$0"; while :; do mkdir d; rmdir d; ln -s "$1" d; rm d; done', path, target],
      { stdio: 'ignore' },
    );
    try {
      for (let round = 0; round < 60; round++) {
        await own({ path, uid: null, gid: round % 2 === 0 ? GROUP : AGENT });
        assert.equal(statSync(target).gid, 0);
        assert.equal(statSync(join(target, 'file')).gid, 0);
      }
    } finally {
      swap.kill('SIGKILL');
    }
    assert.ok(existsSync(path));
  });
});
