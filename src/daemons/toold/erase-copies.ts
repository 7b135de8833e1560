// Removes the copies of forgotten texts from what toold has recorded, then from what egressd keeps
// of the requests that it made for tools.
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';

type Erase = (order: EraseCopies) => Promise<ErasedCopies>;

/** Begins the cursor of a step at egressd; those of toold are JSON. */
const AT_EGRESSD = 'egressd ';
const FIRST = `${AT_EGRESSD}first`;
const EGRESSD_OPTIONS = { deadlineMs: 300_000 } as const;

export type EgressdEraser = {
  eraseCopies(
    request: { body: EraseCopies },
    options: { deadlineMs: number },
  ): Promise<ErasedCopies>;
};

export function makeEraseCopies(deps: {
  eraseRecords: Erase;
  egressd: EgressdEraser;
  failpoint(name: string): void;
}): Erase {
  const { eraseRecords, egressd, failpoint } = deps;

  const eraseAtEgressd: Erase = async ({ forgotten, cursor }) => {
    const body =
      cursor === FIRST ? { forgotten } : { forgotten, cursor: cursor!.slice(AT_EGRESSD.length) };
    const step = await egressd.eraseCopies({ body }, EGRESSD_OPTIONS);
    return { ...step, cursor: step.cursor === null ? null : `${AT_EGRESSD}${step.cursor}` };
  };

  return async (order) => {
    if (order.cursor?.startsWith(AT_EGRESSD) === true) return eraseAtEgressd(order);
    failpoint('toold.before-erase-copies');
    const erased = await eraseRecords(order);
    failpoint('toold.after-erase-copies');
    return erased.cursor === null ? { ...erased, cursor: FIRST } : erased;
  };
}
