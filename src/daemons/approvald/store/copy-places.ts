// Where approvald has what people were shown and said, for the removal of forgotten texts.
import type { CopyPlace } from '../../../platform/copies/erase-records.ts';

/** A decision on an approval that had a forgotten text counts for nothing any more. */
export const COPY_PLACES: readonly CopyPlace[] = [
  {
    table: 'approvals',
    key: ['id'],
    columns: [
      'summary',
      'reason',
      'chain',
      'arguments',
      'edited',
      'diff',
      'rollback',
      'said',
      'thread',
    ],
    hashes: { arguments_hash: 'arguments', edited_hash: 'edited' },
    voided: ['diff_hash', 'group_key'],
  },
  { table: 'asks', key: ['call_id'], columns: ['purpose', 'redeemed'] },
  { table: 'notices', key: ['id'], columns: ['body'] },
];
