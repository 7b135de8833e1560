// Removes the copies of forgotten texts from the record of model calls, and their vectors.
import { makeEraseRecords } from '../../../platform/copies/erase-records.ts';
import type { makeSeal } from '../../../platform/copies/seal.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { EraseCopies, ErasedCopies } from '../../../wire/copies.ts';
import { COPY_PLACES, deleteVectors } from '../store/copy-places.ts';
import type { Journal } from '../store/journal.ts';

export function makeEraseCopies(deps: {
  db: Database;
  journal: Pick<Journal, 'flush'>;
  seal: ReturnType<typeof makeSeal>;
  failpoint(name: string): void;
}): (order: EraseCopies) => Promise<ErasedCopies> {
  const { db, journal, seal, failpoint } = deps;
  const eraseRecords = makeEraseRecords({ db, places: COPY_PLACES, seal });
  return async (order) => {
    failpoint('modeld.before-erase-copies');
    // Calls that have ended may not be in the tables yet.
    await journal.flush();
    if (order.cursor === undefined) await db.write((sql) => deleteVectors(sql, order.forgotten));
    const erased = await eraseRecords(order);
    failpoint('modeld.after-erase-copies');
    return erased;
  };
}
