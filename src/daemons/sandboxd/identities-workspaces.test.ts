// Tests identities and workspaces: permanent uids, groups of task trees, and directories that an
// operator allowed.
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { manualClock, systemClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { openOutbox } from '../../platform/outbox.ts';
import type { Database } from '../../platform/sql/database.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import type { BoxId, RunId, TaskId } from '../../wire/primitives.ts';
import type { DirectoryOwner } from './adapters/plan.ts';
import { sandboxdConfig } from './config.ts';
import { makeIdentities } from './identities.ts';
import { MIGRATIONS, makeStore, type NewBox, type SandboxdStore } from './store.ts';
import { makeWorkspaces } from './workspaces.ts';

/** The daemons' user beside a root warden, and a person with her own warden. */
const DAEMONS = { uid: 265_534, gid: 265_534, wardenIsRoot: true };
const ALICE = { uid: 1_000, gid: 1_000, wardenIsRoot: false };

describe("sandboxd's store", () => {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'sandboxd-')));
  const events: NewEvent[] = [];
  const clock = manualClock(1_000_000);
  let db: Database;
  let store: SandboxdStore;
  const open = async () => {
    db = openSqlite({ file: join(dir, 'sandboxd.sqlite'), migrations: MIGRATIONS });
    const append = async (more: NewEvent[]) => void events.push(...more);
    const outbox = await openOutbox({ db, source: 'sandboxd', clock, log: silentLog, append });
    store = makeStore(db, outbox, () => clock.nowMs());
  };
  before(open);
  after(async () => {
    await db.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const identities = (more: object, host = DAEMONS, passwd = '') =>
    makeIdentities({
      config: sandboxdConfig.parse(more),
      store,
      host,
      passwd: () => passwd,
    });

  it('a name has one uid permanently, and no other name gets it', async () => {
    const { identityFor: of } = identities({});
    const names = ['coder', 'planner', 'coder', 'tester'];
    const found = await Promise.all(names.map(of));
    assert.deepEqual(
      found.map(({ uid }) => uid),
      [200_000, 200_001, 200_000, 200_002],
    );
    assert.equal(found[0]!.user, 'agent-coder');
    await db.close();
    await open();
    assert.equal((await identities({}).identityFor('tester')).uid, 200_002);
    assert.equal((await identities({}).identityFor('other')).uid, 200_003);
  });

  it('an exhausted range is a refusal, not a second use', async () => {
    const { identityFor: of } = identities({ uid_first: 5_000, uid_last: 5_003 });
    assert.equal((await of('one')).uid, 5_000);
    assert.equal((await of('two')).uid, 5_001);
    await assert.rejects(of('three'), { code: 'limit' });
    // Assigned before, from another range.
    assert.equal((await of('coder')).uid, 200_000);
  });

  it('users are host accounts; single is this user, and never root', async () => {
    const passwd =
      'root:x:0:0::/root:/bin/sh\nagent-coder:x:200500:200500::/:/bin/false\nagent-bad:x:7:7::/:\n';
    const users = identities({ identity: 'users' }, DAEMONS, passwd);
    assert.deepEqual(await users.identityFor('coder'), {
      uid: 200_500,
      gid: 200_500,
      user: 'agent-coder',
    });
    await assert.rejects(users.identityFor('nobody'), {
      message: /account agent-nobody not found/,
      hint: /^groupadd -g 200000 agent-nobody && useradd -u 200000 -g 200000/,
    });
    await assert.rejects(users.identityFor('bad'), /not both from 200000/);
    const named: Record<string, string> = { tester: 'agent-coder', climber: 'root' };
    const byManifest = makeIdentities({
      config: sandboxdConfig.parse({ identity: 'users' }),
      store,
      host: DAEMONS,
      passwd: () => passwd,
      linuxUsers: () => new Map(Object.entries(named)),
    });
    assert.deepEqual(await byManifest.identityFor('tester'), await users.identityFor('coder'));
    await assert.rejects(
      byManifest.identityFor('climber'),
      /root is root \(uid 0, gid 0\), which no agent may be/,
    );
    assert.deepEqual(
      byManifest.refused().map(({ message }) => message),
      ['root is root (uid 0, gid 0), which no agent may be'],
    );
    named.tester = 'agent-gone';
    await assert.rejects(
      byManifest.identityFor('tester'),
      /account agent-gone not found/,
      'a changed manifest applies',
    );
    assert.deepEqual(await identities({}, ALICE).identityFor('coder'), {
      uid: 1_000,
      gid: 1_000,
      user: 'agent-coder',
    });
    assert.throws(() => identities({ identity: 'single' }, DAEMONS), { code: 'bad_config' });
    assert.throws(() => identities({ identity: 'dynamic' }, ALICE), { code: 'bad_config' });
  });

  const owned: DirectoryOwner[] = [];
  /** Paths with a gid that the warden finds there. */
  const found: string[] = [];
  const granted = new Set<string>();
  const workspaces = (more: object, ownUsers = true) =>
    makeWorkspaces({
      stateDir: dir,
      clock: systemClock(),
      config: sandboxdConfig.parse(more),
      store,
      ownUsers,
      log: silentLog,
      gid: process.getgid?.() ?? 0,
      warden: {
        chown: async (one) => owned.push(one),
        async measure(path, gid) {
          if (!existsSync(path)) throw fault('not_found', `${path} is gone`);
          return { bytes: 0, entries: found.filter((entry) => entry === `${path} ${gid}`).length };
        },
        async assertGranted(path) {
          if (granted.has(path)) return;
          throw fault('denied', `the warden refused: ${path} is not granted`);
        },
      },
      secrets: () => [join(dir, 'keys')],
    });

  it('a task tree has one workspace, with a group of its own where there are users', async () => {
    const { workspaceFor } = workspaces({});
    const one = await workspaceFor({ rootTaskId: 'task_1' });
    assert.deepEqual(one, { ...(await workspaceFor({ rootTaskId: 'task_1' })), layers: [] });
    assert.equal(one.upper, join(dir, 'workspaces', 'task_1'));
    const two = await workspaceFor({ rootTaskId: 'task_2' });
    assert.notEqual(one.upper, two.upper);
    assert.notEqual(one.gid, two.gid);
    assert.equal(statSync(one.upper).mode & 0o7777, 0o700, 'closed until it is shared');
    const shared = ({ upper: path, gid }: { upper: string; gid: number }) => ({
      path,
      uid: null,
      gid,
    });
    assert.deepEqual(owned.splice(0), [shared(one), shared(two)], 'by the warden, once');
    const alone = await workspaces({}, false).workspaceFor({ rootTaskId: 'task_1' });
    assert.deepEqual(
      [alone.gid, owned],
      [process.getgid?.(), []],
      'without users nothing is shared',
    );
  });

  it('a directory is used in place only where an operator allowed it, and never through a link', async () => {
    const roots = join(dir, 'allowed');
    const place = join(roots, 'repo');
    mkdirSync(join(place, 'sub'), { recursive: true });
    writeFileSync(join(place, 'sub', 'file'), 'x', { mode: 0o600 });
    symlinkSync('/etc', join(place, 'link'));
    symlinkSync('/etc', join(roots, 'etc'));
    const { workspaceFor } = workspaces({ workspace_roots: [roots] });
    const used = await workspaceFor({ rootTaskId: 'task_3', path: place });
    assert.equal(used.upper, place);
    await assert.rejects(workspaceFor({ rootTaskId: 'task_4', path: '/etc' }), { code: 'denied' });
    const up = join(roots, '..', 'workspaces');
    await assert.rejects(workspaceFor({ rootTaskId: 'task_4', path: up }), { code: 'denied' });
    // A link at the end of the path or within it; the control is the same path without it.
    symlinkSync(place, join(roots, 'alias'));
    const onTheWay = join(roots, 'alias', 'sub');
    await workspaces({ workspace_roots: [roots] }).check(join(place, 'sub'));
    const links = [join(roots, 'etc'), join(place, 'link'), onTheWay];
    for (const path of [`${roots}/../workspaces`, ...links, join(roots, 'none')])
      await assert.rejects(
        workspaceFor({ rootTaskId: 'task_4', path }),
        /may not be used|not a directory/,
      );
    mkdirSync(join(dir, 'keys', 'more'), { recursive: true });
    const wide = workspaces({ workspace_roots: [dir] });
    for (const path of ['keys', 'keys/more'].map((name) => join(dir, name))) {
      await assert.rejects(
        wide.workspaceFor({ rootTaskId: 'task_4', path }),
        /keys are kept there/,
      );
      await assert.rejects(wide.check(path), { code: 'denied' });
    }
    await wide.check(roots);
    const again = workspaces({ workspace_roots: [roots] });
    assert.equal((await again.workspaceFor({ rootTaskId: 'task_3' })).upper, place);
    await assert.rejects(again.workspaceFor({ rootTaskId: 'task_1', path: place }), {
      code: 'conflict',
    });
    const shared = { path: place, uid: null, gid: used.gid };
    assert.deepEqual(owned.splice(0), [shared, shared], 'by the warden, after each start');
  });

  it('without roots, a directory is used in place only while it is granted, and stays its owner’s', async () => {
    const place = join(dir, 'of a person');
    mkdirSync(place);
    const none = workspaces({});
    const refusal = {
      code: 'denied',
      message: `agents may not work in ${place}: ${place} is not granted`,
      hint: `Let them, as the owner of the directory: agentctl workspace grant '${place}'`,
      details: { workspace: 'not_granted', path: place },
    };
    await assert.rejects(none.check(place), refusal);
    await assert.rejects(none.workspaceFor({ rootTaskId: 'task_5', path: place }), refusal);
    granted.add(place);
    await none.check(place);
    const used = await none.workspaceFor({ rootTaskId: 'task_5', path: place });
    assert.equal(used.upper, place);
    assert.deepEqual(owned.splice(0), [], 'nothing is given a group');
    assert.deepEqual((await store.workspaceUse('task_5'))?.writes, []);
    // Where the site names the roots, a grant adds nothing.
    const roots = workspaces({ workspace_roots: [join(dir, 'allowed')] });
    await assert.rejects(roots.check(place), { code: 'denied', hint: /^Work below .*\/allowed; / });
    granted.clear();
    await assert.rejects(workspaces({}).workspaceFor({ rootTaskId: 'task_5' }), refusal);
  });

  it('trees that were not used for long are forgotten, and their files shared again', async () => {
    const { workspaceFor } = workspaces({});
    const trees = Array.from({ length: 1_000 }, (_, i) => `task_many_${i}`);
    const made = await Promise.all(trees.map((rootTaskId) => workspaceFor({ rootTaskId })));
    assert.equal(owned.splice(0).length, 1_000);
    assert.deepEqual(await workspaceFor({ rootTaskId: trees[0]! }), made[0]);
    await workspaceFor({ rootTaskId: 'task_one_more' });
    assert.equal(owned.splice(0).length, 1);
    assert.deepEqual(await workspaceFor({ rootTaskId: trees[0]! }), made[0]);
    assert.deepEqual(owned, [], 'it was used last');
    assert.deepEqual(await workspaceFor({ rootTaskId: trees[1]! }), made[1], 'the same group');
    assert.equal(owned.splice(0).length, 1);
  });

  describe('releases a group', () => {
    const freed = { freed: true, reason: null };
    const dayMs = 86_400_000;
    const removeDir = (tree: string) =>
      rmSync(join(dir, 'workspaces', tree), { recursive: true, force: true });

    after(() => owned.splice(0));

    it('to the next tree, a day later, or when no other is left', async () => {
      const range = { gid_first: 800_000, gid_last: 800_003 };
      const small = workspaces(range);
      const take = async (rootTaskId: string) => (await small.workspaceFor({ rootTaskId })).gid;
      assert.deepEqual([await take('a'), await take('b')], [800_000, 800_001]);
      for (const tree of ['b', 'a']) {
        removeDir(tree);
        assert.deepEqual(await small.release(tree), freed);
        clock.advance(1);
      }
      assert.equal(await take('c'), 800_002, 'the others rest');
      clock.advance(dayMs);
      assert.equal(await take('d'), 800_001, 'it was freed first');
      removeDir('d');
      assert.deepEqual(await small.release('d'), freed);
      assert.deepEqual([await take('e'), await take('f')], [800_000, 800_003]);
      const gids = { first: 800_000, last: 800_003 };
      const used = async () => (await store.rangeUse({ uids: gids, gids })).gids.used;
      assert.equal(await used(), 3);
      assert.equal(await take('g'), 800_001, 'there is no other');
      assert.equal(await used(), 4);
      await assert.rejects(take('h'), { code: 'limit' });
      removeDir('g');
      assert.deepEqual(await small.release('g'), freed);
      const moved = workspaces({ gid_first: 810_000, gid_last: 810_000 });
      assert.equal((await moved.workspaceFor({ rootTaskId: 'i' })).gid, 810_000);
      assert.equal(await take('e'), 800_000);
    });

    const open = () => workspaces({ workspace_roots: [dir], gid_first: 900_000 });

    it('not while files elsewhere have it, or cannot be searched; then tries again', async () => {
      const { workspaceFor, release } = open();
      const place = join(dir, 'in-place');
      mkdirSync(place);
      const { gid } = await workspaceFor({ rootTaskId: 'task_place', path: place });
      found.push(`${place} ${gid}`);
      assert.match((await release('task_place')).reason!, /in-place has files of its group 9/);
      rmSync(place, { recursive: true });
      found.length = 0;
      assert.match((await release('task_place')).reason!, /could not be searched: .* is gone/);
      mkdirSync(place);
      // The release of another tree tries it again, but not on the same day.
      assert.deepEqual(await release('task_unknown'), freed);
      assert.notEqual(await store.workspaceUse('task_place'), undefined);
      clock.advance(dayMs + 1);
      assert.deepEqual(await release('task_unknown'), freed);
      assert.equal(await store.workspaceUse('task_place'), undefined);
    });

    it('never of a tree from before its writable paths were recorded', async () => {
      const { workspaceFor, release } = open();
      await workspaceFor({ rootTaskId: 'task_old' });
      await db.write((sql) => sql.run('UPDATE workspaces SET is_complete = 0'));
      removeDir('task_old');
      const { freed: isFree, reason } = await release('task_old');
      assert.equal(isFree, false);
      assert.match(reason!, /did not record/);
    });
  });

  it('the warden assigns a home to its agent', async () => {
    const agent = { uid: 200_007, gid: 200_007, user: 'agent-coder' };
    const home = await workspaces({}).homeFor('coder', 'task_1', agent);
    assert.equal(home, join(dir, 'homes', 'task_1', 'coder'));
    assert.deepEqual(owned.splice(0), [{ path: home, uid: 200_007, gid: 200_007 }]);
    await workspaces({}, false).homeFor('coder', 'task_1', agent);
    assert.deepEqual(owned, []);
  });

  it("a box's opening and end are logged once; leftover boxes are ended", async () => {
    const box = (id: string): NewBox => ({
      id: id as BoxId,
      kind: 'tools',
      level: 'L2',
      run_id: 'run_1' as RunId,
      fence: 1,
      agent: 'coder',
      task_id: 'task_1' as TaskId,
      root_task_id: 'task_1' as TaskId,
      uid: 7,
    });
    await store.recordOpened(box('box_a'));
    await store.recordOpened(box('box_b'));
    await store.recordClosed('box_a' as BoxId, { endedBy: 'itself', data: { exit_code: 0 } });
    await store.recordClosed('box_a' as BoxId, { endedBy: 'killed' });
    await store.recordRefused(box('box_c'), { code: 'denied', message: 'no' });
    assert.equal(await store.closeLost(), 1);
    const seen = () => events.map(({ id, status }) => [id.replace(/(refused)\..*/, '$1'), status]);
    for (let tries = 0; tries < 4_000 && events.length < 5; tries++)
      await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(seen(), [
      ['box_a.opened', undefined],
      ['box_b.opened', undefined],
      ['box_a.ended', 'itself'],
      ['box_c.refused', 'denied'],
      ['box_b.ended', 'restart'],
    ]);
    const newest = Number.MAX_SAFE_INTEGER;
    const rows = await store.list({ before: newest, limit: 10, open: false });
    assert.deepEqual(
      rows.map(({ id, ended_by }) => [id, ended_by]),
      [
        ['box_b', 'restart'],
        ['box_a', 'itself'],
      ],
    );
    const next = await store.list({ before: rows[0]!.place, limit: 10 });
    assert.deepEqual(
      next.map(({ id }) => id),
      ['box_a'],
      'the next page starts where the last one ended',
    );
  });
});
