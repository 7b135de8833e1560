// The keeper's socket for grants: who may ask, for what, and what a hostile client can do to it.
// The attackers are the daemons' user, an agent, and another person of this host.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../support/runtime.ts';
import { buildKeeper, IS_ROOT } from './support/warden.ts';

const DAEMONS = 61_100;
const AGENT = 61_200;
const LAST_AGENT = 61_299;
const TREE = 61_350;
const ALICE = 61_500;
const BOB = 61_501;
const OP = { grant: 1, revoke: 2, list: 3, read: 4 } as const;
const [DONE, UNCHANGED, REFUSED] = [0, 1, 2];

const skip = IS_ROOT ? false : 'needs root';
describe('people ask the keeper for grants', { skip }, () => {
  let dir: string;
  let socketPath: string;
  let grantsDir: string;
  let keeper: ChildProcess;
  let repo: string;

  const own = (path: string, uid = ALICE): string => {
    mkdirSync(path, { recursive: true });
    chownSync(path, uid, uid);
    return path;
  };
  /** The peer credentials are those at the time of the connect. */
  const connectAs = (uid: number, gid = uid, groups: number[] = []): Socket => {
    const before = process.getgroups!();
    process.setgroups!(groups);
    process.setegid!(gid);
    process.seteuid!(uid);
    try {
      return connect({ path: socketPath, allowHalfOpen: true });
    } finally {
      process.seteuid!(0);
      process.setegid!(0);
      process.setgroups!(before);
    }
  };
  const replyOf = async (socket: Socket): Promise<Buffer> => {
    const parts: Buffer[] = [];
    for await (const part of socket) parts.push(part as Buffer);
    return Buffer.concat(parts);
  };
  const encode = (op: number, path: string) =>
    Buffer.concat([Buffer.from([op]), Buffer.from(`${path}\0`)]);
  const ask = async (
    uid: number,
    op: keyof typeof OP,
    path = '',
    { gid = uid, groups = [] as number[] } = {},
  ) => {
    const socket = connectAs(uid, gid, groups);
    socket.end(encode(OP[op], path));
    const reply = await replyOf(socket);
    return { status: reply[0], text: reply.subarray(1).toString() };
  };
  const grantTexts = () =>
    readdirSync(grantsDir).map((name) => readFileSync(join(grantsDir, name), 'utf8'));
  const textFor = (path: string): string => {
    const { dev, ino, uid } = lstatSync(path, { bigint: true });
    return `${path}\n${dev} ${ino} ${uid}\n`;
  };
  const startKeeper = async (): Promise<void> => {
    const script = (name: string, lines: string[]): string => {
      writeFileSync(join(dir, name), ['#!/bin/sh', ...lines, ''].join('\n'));
      chmodSync(join(dir, name), 0o755);
      return join(dir, name);
    };
    const warden = script('warden', ['echo ready', 'exec >&-', 'exec sleep 60']);
    const runtime = script('runtime', ['exec sleep 60']);
    const bounds = `uid ${AGENT} ${LAST_AGENT}\ngid ${AGENT} ${TREE}\nboxes 1\n`;
    const fields: Record<string, string | number> = {
      uid: DAEMONS,
      gid: DAEMONS,
      user: 'daemons',
      'ready-fd': 2,
      'single-client': 1,
      warden,
      'warden-dir': join(dir, 'rt.warden'),
      bounds,
      'runtime-dir': join(dir, 'rt'),
      halt: join(dir, 'state', 'HALT'),
      state: join(dir, 'state'),
      'grants-dir': grantsDir,
      'in-use-error': '{}',
      'warden-log': join(dir, 'state', 'warden.log'),
    };
    const spec = [...Object.entries(fields).flat(), '--', runtime];
    writeFileSync(join(dir, 'spec'), spec.map((word) => `${word}\0`).join(''));
    const prepare = script('prepare', [`cat ${dir}/spec >&$2`]);
    keeper = spawn(buildKeeper(), [prepare], { stdio: ['ignore', 'inherit', 'inherit'] });
    await eventually('the keeper', async () => (await ask(0, 'list')).status === DONE || undefined);
  };
  const stopKeeper = async (): Promise<void> => {
    keeper.kill('SIGTERM');
    await once(keeper, 'exit');
  };

  before(async () => {
    if (!IS_ROOT) return;
    dir = realpathSync(mkdtempSync('/tmp/keeper-'));
    chmodSync(dir, 0o755);
    own(join(dir, 'state'), DAEMONS);
    grantsDir = join(dir, 'kept');
    mkdirSync(grantsDir, { mode: 0o700 });
    socketPath = join(dir, 'rt.warden', 'grant.sock');
    repo = own(join(own(join(dir, 'alice')), 'repo'));
    await startKeeper();
  });
  after(async () => {
    if (!IS_ROOT) return;
    await stopKeeper();
    assert.ok(!existsSync(join(dir, 'rt.warden')), 'nothing is left in it');
    rmSync(dir, { recursive: true });
  });

  it('a grant for reading says so, becomes one for work, and never the reverse', async () => {
    const read = textFor(repo).replace(/\n$/, ' read\n');
    assert.equal((await ask(BOB, 'read', repo)).status, REFUSED);
    assert.equal((await ask(ALICE, 'read', repo)).status, DONE);
    assert.equal((await ask(ALICE, 'read', repo)).status, UNCHANGED);
    assert.deepEqual(grantTexts(), [read]);
    assert.deepEqual(await ask(ALICE, 'list'), { status: DONE, text: read });
    assert.equal((await ask(ALICE, 'grant', repo)).status, DONE);
    assert.equal((await ask(ALICE, 'read', repo)).status, UNCHANGED);
    assert.deepEqual(grantTexts(), [textFor(repo)]);
    assert.equal((await ask(ALICE, 'revoke', repo)).status, DONE);
  });

  it('an owner grants, lists and revokes; the directory is recorded as it is', async () => {
    assert.deepEqual(await ask(ALICE, 'grant', repo), { status: DONE, text: '' });
    assert.deepEqual(grantTexts(), [textFor(repo)]);
    const { uid, mode } = lstatSync(join(grantsDir, '1'));
    assert.deepEqual([uid, mode & 0o022], [0, 0]);
    assert.equal((await ask(ALICE, 'grant', repo)).status, UNCHANGED);
    assert.deepEqual(await ask(ALICE, 'list'), { status: DONE, text: textFor(repo) });
    assert.deepEqual(await ask(BOB, 'list'), { status: DONE, text: '' }, 'others see nothing');
    assert.deepEqual(await ask(0, 'list'), { status: DONE, text: textFor(repo) });
    const others = await ask(BOB, 'revoke', repo);
    assert.equal(others.status, REFUSED);
    assert.match(others.text, /was granted by another user/);
    assert.deepEqual(grantTexts(), [textFor(repo)]);
    assert.equal((await ask(ALICE, 'revoke', repo)).status, DONE);
    assert.equal((await ask(ALICE, 'revoke', repo)).status, UNCHANGED);
    assert.deepEqual(grantTexts(), []);
    assert.equal((await ask(0, 'grant', repo)).status, DONE, 'root names anybody’s');
    assert.deepEqual(grantTexts(), [textFor(repo)], 'recorded as its owner’s');
    assert.equal((await ask(ALICE, 'revoke', repo)).status, DONE, 'who may end that');
  });

  it('refuses the daemons and every agent, whatever they own', async () => {
    const ids: [uid: number, gid: number, groups: number[]][] = [
      [DAEMONS, DAEMONS, []],
      [AGENT, AGENT, []],
      [LAST_AGENT, LAST_AGENT, []],
      [ALICE, DAEMONS, []],
      [ALICE, TREE, []],
      [ALICE, ALICE, [TREE]],
      [ALICE, ALICE, [DAEMONS]],
    ];
    for (const [uid, gid, groups] of ids) {
      const place = own(join(dir, `of-${uid}`), uid);
      for (const op of ['grant', 'revoke', 'list'] as const) {
        const path = op === 'list' ? '' : place;
        const answer = await ask(uid, op, path, { gid, groups });
        assert.equal(answer.status, REFUSED, `${uid} ${gid} ${groups}`);
        assert.match(answer.text, /neither a daemon nor an agent/);
      }
    }
    assert.deepEqual(grantTexts(), []);
    for (const uid of [TREE + 1, ALICE]) {
      const place = own(join(dir, `of-${uid}`), uid);
      assert.equal((await ask(uid, 'grant', place)).status, DONE, 'control');
      assert.equal((await ask(uid, 'revoke', place)).status, DONE);
    }
  });

  it('refuses what is not the person’s, not reached by them, or nobody’s to grant', async () => {
    const closed = own(join(dir, 'closed'), BOB);
    chmodSync(closed, 0o700);
    const inside = own(join(closed, 'of-alice'));
    symlinkSync(repo, join(dir, 'alice', 'link'));
    chownSync(join(dir, 'alice', 'link'), ALICE, ALICE);
    writeFileSync(join(dir, 'alice', 'file'), '');
    const byHerself: [path: string, why: RegExp][] = [
      [own(join(dir, 'of-bob'), BOB), /belongs to uid 61501, not to uid 61500/],
      [join(dir, 'kept'), /belongs to uid 0/],
      [inside, /Permission denied/],
      [join(closed, 'no-such'), /Permission denied/],
      [join(dir, 'alice', 'link'), /leads through a link/],
      [join(dir, 'alice', 'link', 'sub'), /leads through a link/],
      [join(dir, 'alice', 'file'), /Not a directory/],
      [join(dir, 'alice', 'none'), /No such file or directory/],
    ];
    const byAnybody: [path: string, why: RegExp][] = [
      ['/', /it contains/],
      ['/home', /it contains|it is not one person/],
      ['/home/somebody', /it is a home directory/],
      ['/root', /it is a home directory/],
      ['/etc/ssl', /it is the system's: \/etc/],
      ['/usr/local/src', /it is the system's/],
      ['/proc/self/cwd', /it is the system's/],
      ['/var/lib/x', /it is the system's/],
      ['/var', /it contains/],
      ['/tmp', /it contains what is agentd's own|it is not one person/],
      [join(dir, 'state'), /it is agentd's own/],
      [join(dir, 'state', 'workspaces', 'task'), /it is agentd's own/],
      [join(dir, 'rt'), /it is agentd's own/],
      [join(dir, 'rt.warden', 'grants'), /it is agentd's own/],
      [dir, /it contains what is agentd's own/],
    ];
    for (const [path, why] of byHerself) {
      const answer = await ask(ALICE, 'grant', path);
      assert.equal(answer.status, REFUSED, path);
      assert.match(answer.text, why, path);
      assert.match(answer.text, /\n./, 'says what to do');
    }
    for (const uid of [ALICE, 0])
      for (const [path, why] of byAnybody) {
        const answer = await ask(uid, 'grant', path);
        assert.equal(answer.status, REFUSED, path);
        assert.match(answer.text, why, path);
      }
    const odd = [
      ['relative', 'alice/repo'],
      ['parent', `${repo}/../repo`],
      ['dot', `${repo}/.`],
      ['slashes', `${dir}//alice`],
      ['slash', `${repo}/`],
      ['line', `${repo}\n1 1 0`],
      ['empty', ''],
      ['long', `/${'x/'.repeat(2_047)}x`],
      ['name', `/${'x'.repeat(300)}`],
    ];
    for (const [what, path] of odd)
      assert.match((await ask(ALICE, 'grant', path)).text, /not absolute and normalized/, what);
    assert.deepEqual(grantTexts(), []);
    assert.equal((await ask(ALICE, 'grant', repo)).status, DONE, 'control');
    assert.equal((await ask(0, 'grant', inside)).status, DONE, 'root reaches it');
    for (const path of [repo, inside]) await ask(0, 'revoke', path);
  });

  it('what is swapped in during the check is refused, or is not what the grant names', async () => {
    const base = join(dir, 'alice');
    const victim = own(join(dir, 'of-victim'), BOB);
    const stop = join(dir, 'stop');
    const steps = 'mv -T race kept; ln -s "$2" race; rm race; mv -T kept race';
    const script = `cd "$0"; while [ ! -e "$1" ]; do ${steps}; done`;
    const race = own(join(base, 'race'));
    const expected = textFor(race);
    const swap = spawn('sh', ['-c', script, base, stop, victim], { stdio: 'ignore' });
    const statuses = new Set<number | undefined>();
    try {
      for (let round = 0; round < 300 && (round < 60 || statuses.size < 2); round++) {
        statuses.add((await ask(ALICE, 'grant', race)).status);
        for (const text of grantTexts()) assert.equal(text, expected);
        await ask(ALICE, 'revoke', race);
      }
    } finally {
      writeFileSync(stop, '');
      await once(swap, 'close');
    }
    assert.ok(statuses.has(DONE), 'control: sometimes it was there');
    assert.ok(statuses.has(REFUSED), 'control: sometimes it was not');
    assert.equal((await ask(ALICE, 'grant', race)).status, DONE);
    await ask(ALICE, 'revoke', race);
  });

  it('waits for no client, and for at most a few of one user', async () => {
    const silent = Array.from({ length: 12 }, () => connectAs(BOB));
    const slow = connectAs(61_502);
    slow.write(encode(OP.grant, repo).subarray(0, 5));
    for (const socket of [...silent, slow]) socket.on('error', () => undefined);
    const startedMs = performance.now();
    assert.equal((await ask(ALICE, 'grant', repo)).status, DONE);
    assert.ok(performance.now() - startedMs < 5_000);
    const closed = silent.map((socket) => once(socket.resume(), 'end'));
    await Promise.race(closed);
    for (const socket of [...silent, slow]) socket.destroy();
    await ask(ALICE, 'revoke', repo);
    // Bytes without sense, many at once.
    for (let round = 0; round < 200; round++) {
      const socket = connectAs(ALICE);
      socket.on('error', () => undefined);
      const size = 1 + ((round * 977) % 9_000);
      socket.end(Buffer.from(Array.from({ length: size }, (_, i) => (i * round * 31 + i) & 0xff)));
      if (round % 20 === 0) await replyOf(socket).catch(() => undefined);
      else socket.destroy();
    }
    assert.equal((await ask(ALICE, 'list')).status, DONE);
    assert.equal(keeper.exitCode, null);
    const zombies = readdirSync(`/proc/${keeper.pid}/task/${keeper.pid}`).length;
    assert.ok(zombies > 0);
  });

  it('one user’s grants are bounded', async () => {
    const many = Array.from({ length: 65 }, (_, i) => own(join(dir, 'many', String(i)), BOB));
    for (const path of many.slice(0, 64))
      assert.equal((await ask(BOB, 'grant', path)).status, DONE);
    const last = await ask(BOB, 'grant', many[64]!);
    assert.match(last.text, /uid 61501 has 64 grants/);
    assert.equal((await ask(ALICE, 'grant', repo)).status, DONE, 'others still fit');
    assert.equal((await ask(BOB, 'list')).text.split('\n').length, 129);
    for (const path of many.slice(0, 64)) await ask(0, 'revoke', path);
    await ask(0, 'revoke', repo);
  });

  it('grants outlive the runtime, and a new directory of the same name is granted anew', async () => {
    assert.equal((await ask(ALICE, 'grant', repo)).status, DONE);
    keeper.kill('SIGKILL');
    await once(keeper, 'exit');
    await startKeeper();
    assert.deepEqual(await ask(ALICE, 'list'), { status: DONE, text: textFor(repo) });
    const through = join(dir, 'rt.warden', 'grants', '1');
    assert.equal(readFileSync(through, 'utf8'), textFor(repo), 'where the warden reads it');
    renameSync(repo, `${repo}.old`);
    own(repo);
    assert.equal((await ask(ALICE, 'grant', repo)).status, DONE);
    assert.deepEqual(grantTexts(), [textFor(repo)], 'in place of the old one');
    await ask(ALICE, 'revoke', repo);
  });
});
