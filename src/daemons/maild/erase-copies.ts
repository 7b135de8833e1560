// Removes forgotten texts from the mails in people's mailboxes, from mail that waits to be handed
// over, and from the tables.
import { type CopyPlace, makeEraseRecords } from '../../platform/copies/erase-records.ts';
import { makeRedactor, type Redactor } from '../../platform/copies/redact.ts';
import type { makeSeal } from '../../platform/copies/seal.ts';
import type { Database } from '../../platform/sql/database.ts';
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';
import { isNoMail, type Maildirs } from './maildir.ts';
import { MAIL_BYTES_MAX } from './rules/raw-message.ts';
import { redactLetter } from './rules/redact-letter.ts';

export const COPY_PLACES: readonly CopyPlace[] = [
  { table: 'mails', key: ['id'], columns: ['subject'] },
  {
    table: 'incoming',
    key: ['id'],
    columns: ['subject', 'text'],
    /** The mail as it came, until every recipient has it. */
    reads: ['raw'],
    async redact(_sql, { raw }, redactor) {
      const redacted = raw instanceof Uint8Array && redactLetter(Buffer.from(raw), redactor);
      return redacted ? { raw: redacted } : undefined;
    },
  },
  { table: 'outgoing', key: ['call_id'], columns: ['content', 'recipients'] },
];

/** A larger mail is not one that maild delivered; a part of it would replace the whole. */
const DELIVERED_BYTES_MAX = MAIL_BYTES_MAX + 64 * 1024;

export function makeEraseCopies(deps: {
  db: Database;
  maildirs: Pick<Maildirs, 'listBoxes' | 'list' | 'read' | 'replace'>;
  seal: ReturnType<typeof makeSeal>;
  failpoint(name: string): void;
}): (order: EraseCopies) => Promise<ErasedCopies> {
  const { db, maildirs, seal, failpoint } = deps;
  const eraseRecords = makeEraseRecords({ db, places: COPY_PLACES, seal });

  const eraseMails = async (redactor: Redactor): Promise<number> => {
    let found = 0;
    for (const box of await maildirs.listBoxes())
      for (const entry of await maildirs.list(box)) {
        // Mail of others in a person's own Maildir is not the runtime's.
        if (entry.isOthers) continue;
        // Its reader may move or remove it at any time.
        const read = await maildirs.read(entry, DELIVERED_BYTES_MAX).catch((error: unknown) => {
          if (isNoMail(error)) return undefined;
          throw error;
        });
        if (read === undefined || read.sizeBytes > read.content.length) continue;
        const redacted = redactLetter(read.content, redactor);
        if (redacted === undefined) continue;
        await maildirs.replace(entry, redacted);
        found++;
      }
    return found;
  };

  return async (order) => {
    failpoint('maild.before-erase-copies');
    const mails = order.cursor === undefined ? await eraseMails(makeRedactor(order.forgotten)) : 0;
    const erased = await eraseRecords(order);
    failpoint('maild.after-erase-copies');
    return { ...erased, found: erased.found + mails };
  };
}
