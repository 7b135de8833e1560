// Runs the statements that remove the copies of forgotten texts from a filled store.
import { type CopyPlace, makeEraseRecords } from '../../../src/platform/copies/erase-records.ts';
import type { Database } from '../../../src/platform/sql/database.ts';
import { toForgottenMemory } from '../../../src/wire/copies.ts';

const ID = 'memory_01h00000000000000000000000';

export const FORGOTTEN_TEXT = 'x'.repeat(16);

export async function eraseEverything(db: Database, places: readonly CopyPlace[]): Promise<void> {
  const eraseCopies = makeEraseRecords({ db, places, seal: async () => {} });
  const forgotten = [toForgottenMemory(ID, [FORGOTTEN_TEXT])];
  for (let cursor: string | undefined; ; ) {
    const step = await eraseCopies({ forgotten, ...(cursor === undefined ? {} : { cursor }) });
    if (step.cursor === null) return;
    cursor = step.cursor;
  }
}
