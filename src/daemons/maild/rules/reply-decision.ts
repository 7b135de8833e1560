// Reads a person's decision from the first line of their reply: `approve CODE`, or `reject CODE`
// and why. Anything else decides nothing. Pure.
import { REPLY_REASON_CHARS_MAX } from '../../../wire/approvald/replies.ts';

export type ReplyDecision =
  | { answer: 'approve'; code: string }
  | { answer: 'reject'; code: string; reason?: string };

const DECISION = /^(approve|reject)[ \t]+([a-z0-9]{5}-[a-z0-9]{5})(?:[ \t]+(\S.*))?$/i;

/** Undefined: the line is no decision. An approval with a condition is none. */
export function readReplyDecision(firstLine: string | null): ReplyDecision | undefined {
  const [, verb, code, rest] = DECISION.exec(firstLine ?? '') ?? [];
  if (verb === undefined || code === undefined) return undefined;
  if (verb.toLowerCase() === 'approve')
    return rest === undefined ? { answer: 'approve', code: code.toLowerCase() } : undefined;
  const reason = rest?.slice(0, REPLY_REASON_CHARS_MAX);
  const rejected = { answer: 'reject', code: code.toLowerCase() } as const;
  return reason === undefined ? rejected : { ...rejected, reason };
}
