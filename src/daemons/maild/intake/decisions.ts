// Hands over a person's reply to an approval request, and mails the person what came of it. Who it
// is follows from their login; approvald checks the code, the person and everything else.
import type { Client } from '../../../platform/link.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';
import { ApprovalId } from '../../../wire/primitives.ts';
import type { Delivery } from '../delivery.ts';
import type { MailParser } from '../parser/parser.ts';
import { readReplyDecision } from '../rules/reply-decision.ts';
import type { DueRecipient, IncomingRow } from '../store/incoming.ts';
import type { MailRow } from '../store/schema.ts';

export type DecisionsDeps = {
  approvald: Pick<Client<typeof approvaldRoutes>, 'decideByReply'>;
  parser: MailParser;
  delivery: Pick<Delivery, 'deliver'>;
  findByMessage(box: string, messageId: string): Promise<MailRow | undefined>;
  domain: string;
};

const PERSON = 'person:';
const NO_DECISION =
  'Its first line is neither "approve CODE" nor "reject CODE", in plain text, above what it quotes. ' +
  'To ask the agent about it first: agentctl ask.';

/** Resolves to true if something was decided. */
export async function giveToApprovals(
  deps: DecisionsDeps,
  { mail }: DueRecipient,
): Promise<boolean> {
  const answered = await findAnswered(deps, mail);
  const result = await decide(deps, mail, answered);
  const name = mail.sender.slice(PERSON.length);
  await deps.delivery.deliver([
    {
      id: `${mail.id}.decision`,
      box: name,
      kind: 'decision',
      from: { name: 'agentd', address: `postmaster@${deps.domain}` },
      title: result.decided ? 'decided' : `not decided: ${mail.subject}`,
      text: result.decided
        ? `${result.text}\n\nIt was decided by your reply.\n`
        : `Your reply decided nothing:\n\n${result.text}\n`,
      contextId: answered?.context_id ?? null,
      taskId: answered?.task_id ?? null,
      atMs: Number(mail.taken_ms),
      isAutomatic: true,
      by: 'service:maild',
    },
  ]);
  return result.decided;
}

async function decide(
  { approvald, parser }: DecisionsDeps,
  mail: IncomingRow,
  answered: MailRow | undefined,
) {
  const parsed = await parser.parse(mail.raw!, false);
  if ('problem' in parsed) return { decided: false, text: parsed.problem };
  const decision = readReplyDecision(parsed.mail.firstLine);
  if (decision === undefined) return { decided: false, text: NO_DECISION };
  return approvald.decideByReply({
    body: {
      mail_id: mail.id,
      person: {
        principal: mail.sender as `person:${string}`,
        key: mail.owner === null ? 'operator' : `people/${mail.owner}`,
      },
      answers: ApprovalId.safeParse(answered?.id.split('.')[0]).data ?? null,
      ...decision,
    },
  });
}

/** The request that it answers: no other is decided, and the outcome is in its thread. */
async function findAnswered(
  { findByMessage }: DecisionsDeps,
  { sender, answers }: IncomingRow,
): Promise<MailRow | undefined> {
  for (const id of JSON.parse(answers) as string[]) {
    const found = await findByMessage(sender.slice(PERSON.length), id);
    if (found !== undefined) return found;
  }
  return undefined;
}
