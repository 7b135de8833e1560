// Boxes with an owner's rights: where no mount can map the owner of a person's directory (a
// container's own overlay), agentd's programs act on the files of that owner and on no others.
// Control: on the disk the same box has no rights, and needs none.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Bind, BoxPlan } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { LIMITS } from '../../src/daemons/sandboxd/testing/limits.ts';
import { exited } from './support/cases.ts';
import { PERSON } from './support/layers.ts';
import { IS_ROOT, TestWarden } from './support/warden.ts';
import type { BoxExit, PlanRefusal } from './support/warden-client.ts';

const OTHER = 1_777;
const NO_CAPS = '0000000000000000';
/** chown, dac_override, fowner. */
const CAPS = '000000000000000b';
const skip = IS_ROOT ? false : 'needs root, to mount';

describe('boxes with an owner’s rights', { skip, timeout: 120_000 }, () => {
  let warden: TestWarden;
  const person = (...names: string[]) => join(warden.dir, 'person', ...names);
  const spaces = (...names: string[]) => join(warden.dir, 'spaces', ...names);
  const make = (path: string, text: string, mode: number, uid: number, gid = uid): void => {
    writeFileSync(path, text);
    chownSync(path, uid, gid);
    chmodSync(path, mode);
  };
  const makeDir = (path: string, uid: number, gid = uid): void => {
    mkdirSync(path, { recursive: true });
    chownSync(path, uid, gid);
    chmodSync(path, 0o700);
  };
  const ownerOf = (path: string) => {
    const { uid, gid } = lstatSync(path);
    return { uid, gid };
  };
  const owned = (src = person()): Bind => ({ kind: 'rw', src, dst: '/ws', owned: true });

  before(async () => {
    if (!IS_ROOT) return;
    const bounds = (dir: string) => [
      ...['person', 'disk', 'second', 'spaces'].map((name) => `rw ${dir}/${name}`),
      `own ${dir}/spaces`,
      `ro ${dir}/outside`,
    ];
    warden = new TestWarden({ mode: 'root', bounds, clientUid: 0 });
    const places = ['lower', 'upper', 'work'].map((name) => {
      mkdirSync(join(warden.dir, 'ovl', name), { recursive: true });
      return `${name}dir=${warden.dir}/ovl/${name}`;
    });
    for (const name of ['person', 'second', 'all', 'disk', 'spaces'])
      mkdirSync(join(warden.dir, name));
    const all = join(warden.dir, 'all');
    execFileSync('mount', ['-t', 'overlay', '-o', places.join(','), 'none', all]);
    for (const [name, uid, gid] of [
      ['person', PERSON.uid, PERSON.gid],
      ['second', OTHER, OTHER],
    ] as const) {
      makeDir(join(all, name), uid, gid);
      execFileSync('mount', ['--bind', join(all, name), join(warden.dir, name)]);
    }
    makeDir(join(warden.dir, 'disk'), PERSON.uid, PERSON.gid);
    makeDir(spaces(), 0);
    chmodSync(spaces(), 0o755);
    makeDir(spaces('tree'), warden.uid, warden.gid);
    for (const dir of [person(), join(warden.dir, 'disk')]) {
      make(join(dir, 'private'), 'private\n', 0o600, PERSON.uid, PERSON.gid);
      make(join(dir, 'team'), 'team\n', 0o600, PERSON.uid, 4_242);
      make(join(dir, 'others'), 'others\n', 0o600, OTHER);
      make(join(dir, 'roots'), 'roots\n', 0o600, 0);
    }
    make(join(warden.outside, 'closed'), 'closed\n', 0o600, PERSON.uid, PERSON.gid);
    await warden.start();
  });
  after(async () => {
    if (!IS_ROOT) return;
    for (const name of ['person', 'second', 'all'])
      execFileSync('umount', ['-l', join(warden.dir, name)]);
    await warden.stop();
  });

  const boxPlan = (binds: Bind[], more: Partial<BoxPlan> = {}): BoxPlan => ({
    id: 'test',
    level: 2,
    profile: 'tool',
    uid: warden.uid,
    gid: warden.gid,
    binds: [
      { kind: 'ro', src: '/usr', dst: '/usr' },
      { kind: 'symlink', src: 'usr/bin', dst: '/bin' },
      { kind: 'symlink', src: 'usr/lib', dst: '/lib' },
      { kind: 'symlink', src: 'usr/lib64', dst: '/lib64' },
      { kind: 'ro', src: warden.hostile, dst: '/opt/hostile' },
      ...binds,
    ],
    limits: { ...LIMITS, wallMs: 600_000 },
    ownerRights: true,
    ...more,
  });
  /** Runs commands in one box, or returns why it was refused. */
  const tryIn = async (
    commands: readonly string[],
    binds: Bind[] = [owned()],
    more: Partial<BoxPlan> = {},
  ): Promise<BoxExit[] | PlanRefusal> => {
    const client = await warden.client();
    try {
      const box = await client.open(boxPlan(binds, more));
      if (box.kind === 'refused') return box;
      if (box.kind !== 'opened') throw new Error(`not opened: ${JSON.stringify(box)}`);
      const outcomes: BoxExit[] = [];
      for (const command of commands)
        outcomes.push(exited(await warden.exec(box.box, ['/bin/sh', '-c', command])));
      client.closeBox();
      await box.ended;
      return outcomes;
    } finally {
      client.close();
    }
  };
  const run = async (script: string, binds?: Bind[], more?: Partial<BoxPlan>): Promise<BoxExit> => {
    const outcomes = await tryIn([script], binds, more);
    assert.ok(Array.isArray(outcomes), JSON.stringify(outcomes));
    return outcomes[0]!;
  };
  const refused = async (binds: Bind[], more?: Partial<BoxPlan>): Promise<PlanRefusal> => {
    const outcome = await tryIn(['true'], binds, more);
    assert.ok(!Array.isArray(outcome), 'opened');
    return outcome;
  };

  it('the files of the owner, of any group, can be read, written and given', async () => {
    const script =
      'cat private team && echo more >>private && mkdir new && echo x >new/file && ' +
      `chown -hR ${PERSON.uid}:${PERSON.gid} new && rm team && cat new/file; stat -c %u private`;
    const outcome = await run(script);
    assert.equal(outcome.stdout, `private\nteam\nx\n${PERSON.uid}\n`, JSON.stringify(outcome));
    for (const name of ['new', 'new/file', 'private'])
      assert.deepEqual(ownerOf(person(name)), PERSON, name);
    assert.equal(readFileSync(person('private'), 'utf8'), 'private\nmore\n');
  });

  it('files of others stay closed, and cannot be taken', async () => {
    for (const name of ['others', 'roots']) {
      const before_ = ownerOf(person(name));
      const attacks = [
        `cat ${name}`,
        `echo x >>${name}`,
        `chmod 777 ${name}`,
        `chown ${PERSON.uid} ${name}`,
        `chown ${warden.uid} ${name}`,
      ];
      for (const attack of attacks) assert.notEqual((await run(attack)).code, 0, attack);
      assert.deepEqual(ownerOf(person(name)), before_);
      assert.equal(readFileSync(person(name), 'utf8'), `${name}\n`);
    }
    for (const uid of [0, OTHER])
      assert.notEqual((await run(`touch given; chown ${uid} given`)).code, 0, `to ${uid}`);
  });

  it('three capabilities, of no use elsewhere, and only in commands', async () => {
    const capsOf = (caps: string) =>
      ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb'].map((name) => `Cap${name}:\t${caps}\n`).join('');
    assert.equal((await run('grep ^Cap /proc/self/status')).stdout, capsOf(CAPS));
    const client = await warden.client();
    const box = await client.open(boxPlan([owned()]));
    assert.ok(box.kind === 'opened');
    const init = readFileSync(`/proc/${box.pid}/status`, 'utf8');
    assert.equal(init.match(/^Cap.*\n/gm)?.join(''), capsOf(NO_CAPS));
    client.closeBox();
    await box.ended;
    client.close();
    for (const attack of ['user-namespace', 'mount-tmpfs', 'mount-calls', 'change-root'])
      assert.match((await run(`/opt/hostile ${attack}`)).stdout, /failed/, attack);
    for (const uid of [PERSON.uid, 0]) {
      const { code } = await run(`/usr/bin/setpriv --reuid ${uid} /usr/bin/true`);
      assert.notEqual(code, 0, `becomes ${uid}`);
    }
    const setgid = 'touch tool && chmod 2755 tool';
    assert.match((await run(setgid)).stderr, /Operation not permitted/);
  });

  it('links lead nowhere, and what was closed in the box stays closed', async () => {
    execFileSync('ln', ['-s', join(warden.outside, 'secret'), person('out')]);
    execFileSync('ln', ['-s', '/etc/shadow', person('shadow')]);
    for (const name of ['out', 'shadow']) assert.notEqual((await run(`cat ${name}`)).code, 0);
    assert.notEqual(
      (await run('echo x >/etc/passwd || echo x >/proc/sys/kernel/hostname')).code,
      0,
    );
  });

  it('a directory of root gives root’s files there, and nothing of the system', async () => {
    chownSync(person(), 0, 0);
    try {
      const script = 'cat roots && echo x >by-root && chown 0:0 by-root';
      assert.equal((await run(script)).stdout, 'roots\n');
      assert.deepEqual(ownerOf(person('by-root')), { uid: 0, gid: 0 });
      for (const attack of ['cat private', 'echo x >/usr/x', 'echo 1 >/proc/sys/kernel/hostname'])
        assert.notEqual((await run(attack)).code, 0, attack);
      assert.match((await run('grep ^Uid /proc/self/status')).stdout, new RegExp(`${warden.uid}`));
    } finally {
      chownSync(person(), PERSON.uid, PERSON.gid);
    }
  });

  it('no other path that could hold files of the owner may be in the box', async () => {
    const closed = join(warden.outside, 'closed');
    const bad: Bind[] = [
      { kind: 'rw', src: warden.workspace, dst: '/other' },
      { kind: 'ro', src: warden.outside, dst: '/other' },
      { kind: 'ro', src: closed, dst: '/other' },
    ];
    for (const bind of bad)
      assert.match((await refused([owned(), bind])).message, /owner's rights/, bind.src);
    const second = { ...owned(join(warden.dir, 'second')), dst: '/second' };
    assert.match((await refused([owned(), second])).message, /rights of two owners/);
    const tree: Bind = { kind: 'rw', src: spaces('tree'), dst: '/tree' };
    assert.equal((await run('cp private /tree/copy && cat /tree/copy', [owned(), tree])).code, 0);
    assert.equal(ownerOf(spaces('tree/copy')).uid, warden.uid, 'control');
  });

  it('only an open box of files can have them, and a box without them is refused', async () => {
    const plain = await refused([owned()], { ownerRights: false });
    assert.deepEqual(plain.code, 'host');
    assert.match(plain.message, /owner of its files cannot be mapped/);
    assert.match(plain.hint, /work on a layer there/);
    const bad: Partial<BoxPlan>[] = [
      { terminals: true },
      { procEntries: true },
      { egress: join(warden.dir, 'egress/x') },
      { groups: [warden.gid] },
      { profile: 'runner' },
    ];
    for (const more of bad)
      assert.match((await refused([owned()], more)).message, /boxes with files/);
    const command = { args: ['/usr/bin/true'], env: {}, cwd: '/ws' };
    const client = await warden.client();
    const outcome = await client.run({ ...boxPlan([owned()]), ...command });
    client.close();
    assert.match(JSON.stringify(outcome), /need an open box/);
  });

  it('control: on the disk the owner is mapped, and there are no rights', async () => {
    const disk = owned(join(warden.dir, 'disk'));
    const outcome = await run('grep ^CapEff /proc/self/status; cat private; cat others', [disk]);
    assert.equal(outcome.stdout, `CapEff:\t${NO_CAPS}\nprivate\n`);
    const other: Bind = { kind: 'ro', src: warden.outside, dst: '/other' };
    assert.equal((await run('true', [disk, other])).code, 0);
  });
});
