// approvald's section of agentd.yaml: how long people have, what needs two of them, and how they
// are notified. Every field has a safe default, a unit and a limit.
import * as z from 'zod';
import { MailboxName } from '../../wire/maild.ts';

const seconds = (max: number) => z.int().min(1).max(max);
const YEAR_S = 31_536_000;

export const approvaldConfig = z.strictObject({
  /** A request that is not decided within this time expires, which denies it. */
  expires_s: seconds(YEAR_S).default(86_400),
  /** Overrides expires_s for single tools or classes, such as production.change. */
  expires_s_for: z.record(z.string().max(64), seconds(YEAR_S)).default({}),
  /** The same for proposed memories, which no run waits for. */
  proposal_expires_s: seconds(YEAR_S).default(2_592_000),
  /** An approval that is not redeemed within this time is void. */
  redeem_within_s: seconds(YEAR_S).default(3_600),
  /** Default lifetime of a permit. */
  permit_expires_s: seconds(YEAR_S).default(28_800),
  permit_expires_s_max: seconds(YEAR_S).default(2_592_000),
  /** People who may decide by replying to the mail about it, with a key of their own. */
  approve_by_reply: z.array(MailboxName).max(256).default([]),
  /** A code in such a mail is valid for this time, and once. */
  reply_code_expires_s: z.int().min(60).max(86_400).default(3_600),
  /** Tools or classes that two different people must approve; `production.*` means all below it. */
  second_approver_for: z.array(z.string().min(1).max(64)).max(256).default([]),
  /** Maximum number of pending approvals of one agent. */
  pending_per_agent_max: z.int().min(1).max(10_000).default(100),
  /** A program to run for each notice, with the notice as JSON on standard input. */
  notice_command: z.array(z.string().min(1).max(4_096)).min(1).max(64).optional(),
  notice_command_timeout_ms: z.int().min(100).max(600_000).default(10_000),
  /** Addresses that each notice is posted to. */
  webhooks: z
    .array(
      z.strictObject({
        url: z.url({ protocol: /^https?$/ }).max(2_048),
        /** A file (0600) with the shared secret; absent: signed with approvald's own key. */
        secret_file: z.string().min(1).max(4_096).optional(),
      }),
    )
    .max(16)
    .default([]),
  webhook_timeout_ms: z.int().min(100).max(60_000).default(5_000),
  webhook_attempts_max: z.int().min(1).max(100).default(12),
});
export type ApprovaldConfig = z.output<typeof approvaldConfig>;
