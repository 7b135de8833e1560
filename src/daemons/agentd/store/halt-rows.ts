// Records that the runtime is halted, within a transaction.
import type { AgentdTx } from './tx.ts';

/** Resolves to false if it is halted already. */
export async function insertHalt(tx: AgentdTx, reason: string, by: string): Promise<boolean> {
  const fresh = await tx.sql.run(
    'INSERT INTO halt (id, reason, since_ms) VALUES (1, ?, ?) ON CONFLICT DO NOTHING',
    reason,
    tx.nowMs,
  );
  if (fresh === 0) return false;
  await tx.event({
    id: tx.newId('halt'),
    event: 'halt.set',
    principal: by,
    data: { reason: reason.slice(0, 500) },
  });
  return true;
}
