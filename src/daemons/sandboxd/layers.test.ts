// Tests when layers are opened and closed, with a fake warden: one for all boxes of a tree, anew
// when the directory has changed, lost with the warden, sealed for layers of subtasks.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { systemClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { openOutbox } from '../../platform/outbox.ts';
import type { Database } from '../../platform/sql/database.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import type { LayerRequest } from './adapters/plan.ts';
import type { OpenedLayer } from './adapters/warden.ts';
import { LAYER_PARTS_MAX } from './layer-forks.ts';
import { type Layers, makeLayers } from './layers.ts';
import { MIGRATIONS, makeStore } from './store.ts';
import { makeTreeGate } from './tree-gate.ts';

const RANGE = { first: 300_000, last: 300_100 };

describe('layers', () => {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'layers-')));
  const repo = join(dir, 'repo');
  let db: Database;
  let layers: Layers;
  let store: ReturnType<typeof makeStore>;
  let requests: LayerRequest[] = [];
  let closedTrees: string[] = [];
  let lost: (() => void)[] = [];
  let features = 'root';
  let open = 0;
  let written = 0;

  const openLayer = async (request: LayerRequest): Promise<OpenedLayer> => {
    requests.push(request);
    open++;
    const ended = Promise.withResolvers<'closed' | 'gone'>();
    lost.push(() => ended.resolve('gone'));
    return {
      handle: BigInt(requests.length),
      async close() {
        open--;
        ended.resolve('closed');
      },
      ended: ended.promise,
    };
  };
  const deleted: string[] = [];
  before(async () => {
    mkdirSync(repo);
    const clock = systemClock();
    db = openSqlite({ file: join(dir, 'x.sqlite'), migrations: MIGRATIONS });
    const options = { db, source: 'sandboxd', clock, append: async () => {}, log: silentLog };
    store = makeStore(db, await openOutbox(options), () => clock.nowMs());
    layers = makeLayers({
      config: { layer_copy_bytes_max: 1_048_576 },
      disk: { assertSpace: () => undefined },
      withBoxfs: () => Promise.reject(new Error('no box is opened')),
      stateDir: dir,
      store,
      workspaces: {
        check: async () => undefined,
        groupFor: async (tree) => (await store.workspace(tree, undefined, RANGE)).gid,
      },
      warden: {
        features: async () => new Map([['layers', features]]),
        layer: openLayer,
        chown: async () => 0,
        newest: async () => 1n,
        measure: async () => ({ bytes: 0, entries: written }),
        async deleteTree(path) {
          deleted.push(path);
          rmSync(path, { recursive: true, force: true });
          return { bytes: 0, entries: 0 };
        },
      },
      gate: makeTreeGate(clock),
      ownUsers: true,
      host: { uid: 1, gid: 1 },
      closeBoxes: async (tree) => void closedTrees.push(tree),
      clock,
      log: silentLog,
      failpoint: () => undefined,
    });
  });
  beforeEach(() => {
    [requests, closedTrees, lost] = [[], [], []];
  });
  after(async () => {
    await db.close();
    rmSync(dir, { recursive: true });
  });

  it('one is shared by all boxes of a tree, and closed with the last', async () => {
    const [one, two] = await Promise.all([layers.acquire('t1', repo), layers.acquire('t1', repo)]);
    assert.equal(requests.length, 1);
    assert.equal(one.handle, two.handle);
    assert.equal(one.user.uid, one.user.gid);
    one.release();
    one.release();
    const three = await layers.acquire('t1', repo);
    assert.equal(requests.length, 1, 'the second has it');
    for (const use of [two, three]) use.release();
    await layers.closed('t1');
    assert.equal(open, 0);
    (await layers.acquire('t1', repo)).release();
    await layers.closed('t1');
    assert.equal(requests.length, 2);
    await assert.rejects(layers.acquire('t1', dir), { code: 'conflict' });
  });

  it('a lost one closes the boxes of its tree, and is opened again', async () => {
    const use = await layers.acquire('t2', repo);
    lost[0]!();
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(closedTrees, ['t2']);
    use.release();
    (await layers.acquire('t2', repo)).release();
    assert.equal(requests.length, 2);
    await layers.closed('t2');
  });

  it('a subtask has one above what its parent’s was, which is sealed and goes on', async () => {
    (await layers.acquire('t3', repo)).release();
    await layers.closed('t3');
    const first = (await layers.find('t3'))!;
    const fork = (rootTaskId: string, parentId: string) =>
      layers.fork({ rootTaskId, treeId: 't3', parentId, path: repo });
    const use = async (id: string): Promise<LayerRequest> => {
      (await layers.acquire(id, repo)).release();
      await layers.closed(id);
      return requests.at(-1)!;
    };
    written = 1;
    await fork('s1', 't3');
    await fork('s1', 't3');
    const sealed = (await layers.find('t3'))!;
    assert.deepEqual([sealed.number, sealed.sealed, sealed.beganNs], [2, [1], first.beganNs]);
    const top = join(dir, 'workspaces', 't3');
    const upper = (...parts: string[]) => join(top, ...parts, 'upper');
    assert.deepEqual((await use('t3')).sealed, [upper('layers/1')]);
    assert.equal(requests.at(-1)!.dir, join(top, 'layers/2'));
    assert.deepEqual((await use('s1')).sealed, [upper('layers/1')]);
    assert.equal(requests.at(-1)!.dir, join(top, 'own/s1/layers/1'));
    written = 0;
    await fork('s2', 't3');
    assert.equal((await layers.find('t3'))!.number, 2, 'nothing was written since');
    written = 1;
    await fork('s3', 's1');
    assert.deepEqual((await use('s3')).sealed, [upper('layers/1'), upper('own/s1/layers/1')]);
    await assert.rejects(fork('s4', 'nobody'), { code: 'not_found' });

    const own = join(top, 'layers');
    const beganNs = await layers.makeNext(sealed);
    assert.ok(beganNs > first.beganNs);
    await store.renewLayer('t3', { sealed: [], beganNs });
    await layers.sweep('t3');
    assert.deepEqual(readdirSync(own).sort(), ['1', '3'], 'the first is below those of subtasks');
    assert.deepEqual(
      [await layers.hasForks(first, 0), await layers.hasForks(first, 1)],
      [true, false],
    );
    assert.ok(deleted.every((path) => !existsSync(path)));
  });

  it('refuses the part that would be one too many', async () => {
    written = 1;
    const fork = (at: number) =>
      layers.fork({ rootTaskId: `c${at}`, treeId: 't4', parentId: 't4', path: repo });
    for (let at = 0; at < LAYER_PARTS_MAX; at++) await fork(at);
    await assert.rejects(fork(LAYER_PARTS_MAX), { code: 'limit', hint: /apply or discard/ });
    const row = (await layers.find('t4'))!;
    assert.equal(row.sealed.length, LAYER_PARTS_MAX);
    assert.equal(await layers.find(`c${LAYER_PARTS_MAX}`), undefined);
  });

  it('says why there are none, and what to do', async () => {
    await layers.assertAvailable();
    features = 'no: the state directory is on an overlay';
    await assert.rejects(layers.assertAvailable(), {
      code: 'level_unavailable',
      message: 'layers do not work here: the state directory is on an overlay',
      hint: /--live/,
    });
  });
});
