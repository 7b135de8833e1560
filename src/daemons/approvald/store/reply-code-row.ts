// The table of codes by which people decide in a reply to a mail.
import type { ApprovalId } from '../../../wire/primitives.ts';

/** A code belongs to what one person was shown of one approval; `used_by` is a mail. */
export const REPLY_CODES_TABLE = `
CREATE TABLE reply_codes (
  code TEXT PRIMARY KEY,
  approval_id TEXT NOT NULL,
  person TEXT NOT NULL,
  nonce TEXT NOT NULL,
  expires_ms BIGINT NOT NULL,
  used_by TEXT
);
CREATE INDEX reply_codes_by_approval ON reply_codes (approval_id, person);
CREATE INDEX reply_codes_by_expiry ON reply_codes (expires_ms);
`;

export type ReplyCodeRow = {
  code: string;
  approval_id: ApprovalId;
  /** The principal. */
  person: string;
  /** The nonce of the view that the mail showed. */
  nonce: string;
  expires_ms: number;
  used_by: string | null;
};
