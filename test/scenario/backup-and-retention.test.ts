// A backup that is made while artifacts are stored and pruned has the bytes of every artifact that
// its database names.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { findBackup } from '../../src/clients/agentctl/backup/backup-dir.ts';
import { readEntries } from '../../src/clients/agentctl/backup/manifest.ts';
import { type BackupDocument, contentOf, ctl, ctlJson } from '../support/backups.ts';
import { findKind, prune } from '../support/prune.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const BACKUPS = 3;
const ARTIFACTS_AT_ONCE = 20;

describe('a backup while artifacts are pruned', () => {
  let runtime: TestRuntime;
  let dir: string;
  before(async () => {
    const base = freshDir();
    runtime = await startRuntime({ base, mode: 'embedded', agents: {} });
    dir = join(base, 'backup');
  });
  after(() => runtime.remove());

  const store = async (round: number) => {
    for (let n = 0; n < ARTIFACTS_AT_ONCE; n++)
      await runtime.agentd.putArtifact({ body: { name: 'a', text: `${round} ${n}` } });
  };

  it('has what its database refers to', async () => {
    let isOver = false;
    let pruned = 0;
    const pruning = (async () => {
      for (let round = 0; !isOver; round++) {
        await store(round);
        const report = await prune(runtime, { kinds: ['artifacts'], older_than_s: 0 });
        pruned += findKind(report, 'artifacts').pruned;
      }
    })();
    let named = 0;
    for (let n = 0; n < BACKUPS; n++) {
      const { backup } = await ctlJson<BackupDocument>(runtime, ['backup', dir]);
      const copied = new Set(
        [...readEntries(findBackup(dir, backup.id).file)].flatMap((entry) =>
          entry.type === 'artifact' ? [entry.sha256] : [],
        ),
      );
      const hashes = readHashes(contentOf(dir, 'agentd.sqlite'));
      named += hashes.length;
      assert.deepEqual(
        hashes.filter((hash) => !copied.has(hash)),
        [],
      );
    }
    isOver = true;
    await pruning;
    assert.ok(pruned > 0 && named > 0, 'artifacts were pruned, and some were in backups');
    assert.equal((await ctl(runtime, ['backup', 'verify', dir])).code, 0);
  });
});

function readHashes(file: string): string[] {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const rows = db.prepare('SELECT DISTINCT object_hash AS hash FROM artifacts').all();
    return rows.map(({ hash }) => String(hash));
  } finally {
    db.close();
  }
}
