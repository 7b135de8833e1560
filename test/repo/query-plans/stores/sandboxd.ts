// Runs every statement of sandboxd's store.
import {
  ID_COLUMNS,
  KEEP_BOXES_MS,
  MIGRATIONS,
  makeStore,
} from '../../../../src/daemons/sandboxd/store.ts';
import { manualClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import type { BoxId, RunId, TaskId } from '../../../../src/wire/primitives.ts';
import { forEachOf, HISTORY, type StoreUse, useIds } from '../record.ts';

const RANGE = { first: 1_000, last: 100_000 };

async function use(file: string): Promise<void> {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const newId = makeIdMaker(clock);
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const options = { db, source: 'sandboxd', clock, append: async () => {}, log: silentLog };
  const outbox = await openOutbox(options);
  const store = makeStore(db, outbox, () => clock.nowMs());
  const open = async () => {
    const rootTaskId = newId<TaskId>('task');
    await store.workspace(rootTaskId, undefined, RANGE);
    await store.recordDiskBefore(rootTaskId, '/w', 1);
    await store.diskBefore(rootTaskId, '/w');
    await store.recordWrites(rootTaskId, ['/srv/out']);
    const box = {
      id: newId<BoxId>('box'),
      kind: 'tools' as const,
      level: 'L2' as const,
      run_id: newId<RunId>('run'),
      fence: 1,
      agent: 'worker',
      task_id: rootTaskId,
      root_task_id: rootTaskId,
      uid: await store.assignUid('worker', RANGE),
    };
    await store.recordOpened(box);
    return box;
  };
  await forEachOf(HISTORY + 10, async () =>
    store.recordClosed((await open()).id, { endedBy: 'exit' }),
  );
  await forEachOf(HISTORY + 10, async () => {
    const rootTaskId = newId<TaskId>('task');
    await store.workspace(rootTaskId, undefined, RANGE);
    const layer = { rootTaskId, path: '/srv/a', directoryId: null, beganNs: 1n };
    await store.addLayer(layer);
    await store.findLayer(rootTaskId);
    const [one, two] = ['one', 'two'].map((applyId) => ({ rootTaskId, applyId }));
    for (const apply of [one!, two!])
      await store.beginApply({
        ...apply,
        changeSha256: 'x',
        changes: [],
        isWhole: false,
        layerBeganNs: 1n,
        commits: null,
      });
    const written = [{ path: 'a', side: null }];
    await store.endApply(one!, { state: 'done', written });
    await store.endApply(two!, { state: 'done', written, renewed: { beganNs: 2n } });
    await store.beginUndo(one!);
    await store.endApply(one!, { state: 'undone', written });
    await store.findKept(rootTaskId);
    await store.endApply(two!, { state: 'undone', written, isReturned: true });
    await store.findApply(rootTaskId, 'one');
    await store.listApplies(rootTaskId);
    await store.listBases(rootTaskId);
    await store.renewLayer(rootTaskId, { sealed: [1], beganNs: 1n });
    await store.endApply(two!, { state: 'done', written, renewed: { beganNs: 3n } });
    await store.endApply(one!, { state: 'undone', written });
    const row = await store.findLayer(rootTaskId);
    await store.useCopies(row!.rootTaskId);
    await store.addCopy(row!.rootTaskId, { number: 1, path: '/copy', bytes: 1 });
    await store.sealLayer(row!);
    const own = { treeId: rootTaskId, parentId: rootTaskId, base: [{ rootTaskId, number: 1 }] };
    await store.addFork({ ...layer, rootTaskId: newId<TaskId>('task'), own });
    await store.listForks(rootTaskId);
    const file = { path: 'a', sha256: 'x', mode: 0o644, sizeBytes: 1 };
    await store.addOriginals({ rootTaskId, beganNs: 1n }, [file]);
    await store.listOriginals({ rootTaskId, beganNs: 1n });
    await store.keepOriginalsOf(rootTaskId, [1n, 2n]);
    await store.listOriginalHashes(rootTaskId);
  });
  await store.listUnfinished();
  await forEachOf(HISTORY + 10, async () => {
    const rootTaskId = newId<TaskId>('task');
    const run = { taskId: rootTaskId, runId: newId<RunId>('run'), agent: 'worker' };
    const place = { rootTaskId, ...run, path: '/srv/a', isOwned: true, uid: 1, gid: 1 };
    await store.beginLive({ place, armed: {} });
    await store.findLive(rootTaskId, 1);
    const file = { path: '.git', kind: 'gitlink', sha256: null, mode: 0o644 };
    await store.addDisarmed(place, { id: rootTaskId, ...file, linkTarget: null, kept: null });
    await store.listDisarmed(rootTaskId, 10);
    await store.endLive(place);
  });
  await store.listLive();
  await forEachOf(HISTORY + 10, async () => {
    const { id, root_task_id: tree } = await open();
    await store.recordClosed(id, { endedBy: 'exit' });
    await store.freeWorkspace((await store.workspaceUse(tree))!);
  });
  await forEachOf(3, async () => store.delayRelease((await open()).root_task_id));
  clock.advance(KEEP_BOXES_MS + 1);
  await store.nextDelayed();
  await store.rangeUse({ uids: RANGE, gids: RANGE });
  await forEachOf(3, open);
  await store.recordHomeRemoved('home_0', { by: 'person:a', bytes: 1, entries: 1 });
  const opened = await open();
  const ran = await store.recordCommand(opened.id, opened, { by: 'person:a', argv: ['true'] });
  await ran.end({ status: 'exited' });
  await store.recordRefused(await open(), { code: 'x', message: 'x' });
  for (const isOpen of [undefined, true, false])
    await store.list({ before: 1e9, limit: 10, open: isOpen });
  for (const kind of ['workspaces', 'homes'] as const) await store.listTreeFiles(kind, '', 10);
  const measured: string[] = [];
  for (let n = 0; n < HISTORY; n++) {
    const { root } = (await store.findUnmeasured(''))!;
    const homes = ['worker', 'other'].map((agent) => ({ agent, bytes: 1 }));
    const workspace = { agent: 'worker', bytes: 1 };
    await store.recordMeasured({ rootTaskId: root, workspace, homes });
    measured.push(root);
  }
  for (const root of measured.slice(0, 3))
    for (const kind of ['workspaces', 'homes'] as const) await store.recordPruned(root, kind);
  await store.fileSizes();
  await store.closeLost();
  await forEachOf(3, open);
  outbox.stop();
  await useIds(db, ID_COLUMNS);
  await db.close();
}

export const sandboxd: StoreUse = {
  daemon: 'sandboxd',
  smallTables: {
    outbox: 'delivered events are deleted',
    outbox_store: 'one row',
    live_watches: 'a row while commands run in a directory',
    identities: 'one row for each agent',
    file_sizes: 'two rows for each agent',
  },
  use,
};
