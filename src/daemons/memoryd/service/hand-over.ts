// Hands the texts of forgotten memories to agentd, which has every daemon remove their copies. They
// are kept until agentd has them durably; then memoryd has them nowhere.
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import { FORGOTTEN_MEMORIES_MAX, toForgottenMemory } from '../../../wire/copies.ts';
import type { ErasureView } from '../../../wire/memoryd/records.ts';
import type { CopiesDueRow } from '../store/schema.ts';

export type ErasurePeer = Pick<Client<typeof agentdRoutes>, 'startErasure' | 'getErasure'>;

export type HandOverDeps = {
  db: Pick<SqliteDatabase, 'read' | 'write'>;
  agentd: ErasurePeer;
  log: Log;
  failpoint(name: string): void;
};

/** It is tried again later. */
const ORDER_OPTIONS = { deadlineMs: 5_000 } as const;
/** How far a forgotten memory is; nobody waits long to learn it. */
const STATUS_OPTIONS = { deadlineMs: 2_000 } as const;

export async function handOver({ db, agentd, failpoint }: HandOverDeps): Promise<void> {
  for (;;) {
    const rows = await db.read((sql) =>
      sql.all<CopiesDueRow>(
        'SELECT memory_id, texts FROM copies_due ORDER BY memory_id LIMIT ?',
        FORGOTTEN_MEMORIES_MAX,
      ),
    );
    if (rows.length === 0) return;
    const forgotten = rows.map(({ memory_id, texts }) =>
      toForgottenMemory(memory_id, JSON.parse(texts) as string[]),
    );
    failpoint('memoryd.before-hand-over');
    await agentd.startErasure({ body: { forgotten } }, ORDER_OPTIONS);
    failpoint('memoryd.after-hand-over');
    await db.write(async (sql) => {
      for (const { memory_id } of rows)
        await sql.run('DELETE FROM copies_due WHERE memory_id = ?', memory_id);
    });
    await db.read((sql) => sql.all('PRAGMA wal_checkpoint(TRUNCATE)'));
  }
}

/** Null: it was forgotten by an earlier version, or agentd does not answer. */
export async function findErasure(
  { db, agentd, log }: Omit<HandOverDeps, 'failpoint'>,
  id: string,
): Promise<ErasureView | null> {
  const due = await db.read((sql) =>
    sql.one('SELECT memory_id FROM copies_due WHERE memory_id = ?', id),
  );
  if (due !== undefined) return { status: 'waiting', copies: {}, done_at: null };
  const params = { id: id as never };
  return agentd.getErasure({ params }, STATUS_OPTIONS).then(
    ({ erasure }) => erasure,
    (error: unknown) => {
      log.debug('agentd did not say how far a forgotten memory is', { id, error });
      return null;
    },
  );
}
