// Tables of maild. `mails` has what was delivered, without its text: it recognizes a repeat, finds
// a thread. Times are milliseconds since 1970.
import { OUTBOX_TABLES } from '../../../platform/outbox.ts';
import type { Migrations } from '../../../platform/sql/database.ts';
import { IDEMPOTENCY_TABLE } from '../../../platform/sql/idempotency.ts';
import { INCOMING_TABLES } from './incoming.ts';
import { OUTGOING_TABLES } from './outgoing.ts';

export const MIGRATIONS: Migrations = [
  `
CREATE TABLE mails (
  id TEXT PRIMARY KEY,
  box TEXT NOT NULL,
  kind TEXT NOT NULL,
  message_id TEXT NOT NULL,
  context_id TEXT,
  task_id TEXT,
  subject TEXT NOT NULL,
  at_ms BIGINT NOT NULL
);
CREATE INDEX mails_by_thread ON mails (box, context_id, at_ms) WHERE context_id IS NOT NULL;
CREATE INDEX mails_by_time ON mails (at_ms);
${OUTBOX_TABLES}
${IDEMPOTENCY_TABLE}
`,
  INCOMING_TABLES,
  OUTGOING_TABLES,
];

export type MailRow = {
  id: string;
  box: string;
  kind: string;
  message_id: string;
  context_id: string | null;
  task_id: string | null;
  subject: string;
  at_ms: number;
};
