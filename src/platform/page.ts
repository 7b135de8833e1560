// Pages of a list: reads the cursor that a caller sends back, and cuts rows into a page with the
// cursor of the next one.
import { fault } from '../wire/errors.ts';

/** For lists ordered by a number. */
export function readNumberCursor(cursor: string | undefined): number | undefined {
  return cursor === undefined ? undefined : Number(readCursor(cursor, /^\d{1,15}$/));
}

/** For lists ordered by ids: of this kind, or of any. */
export function readIdCursor(cursor: string | undefined, kind = '[a-z]+'): string | undefined {
  return cursor === undefined ? undefined : readCursor(cursor, RegExp(`^${kind}_[0-9a-z]{26}$`));
}

function readCursor(cursor: string, form: RegExp): string {
  if (form.test(cursor)) return cursor;
  throw fault(
    'bad_request',
    'query cursor: must be one that an earlier page of this list returned',
  );
}

/** Expects up to `limit + 1` rows: the last one only shows that another page follows. */
export function cutPage<R>(
  found: readonly R[],
  limit: number,
  cursorOf: (row: R) => string | number,
): { rows: R[]; cursor: string | null } {
  const rows = found.slice(0, limit);
  return { rows, cursor: found.length > limit ? String(cursorOf(rows.at(-1)!)) : null };
}
