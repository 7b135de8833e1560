// Hands over what was taken: to agentd for agents, into Maildirs for people. Each recipient of a
// mail is due until that is recorded; a repeat has the same keys and names, and changes nothing.
import { isTransient } from '../../../platform/backoff.ts';
import type { Clock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { makeWakeLoop } from '../../../platform/wake-loop.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';
import type { ContextId, TaskId, WaitId } from '../../../wire/primitives.ts';
import type { Delivery } from '../delivery.ts';
import type { MailParser } from '../parser/parser.ts';
import { traceMail } from '../rules/trace.ts';
import type { DueRecipient, IncomingRow, IncomingStore } from '../store/incoming.ts';
import type { MailRow } from '../store/schema.ts';
import { giveToApprovals } from './decisions.ts';

export type Handover = { wake(): void; stop(): Promise<void> };

export type HandoverDeps = {
  store: IncomingStore;
  findByMessage(box: string, messageId: string): Promise<MailRow | undefined>;
  delivery: Delivery;
  agentd: Pick<Client<typeof agentdRoutes>, 'takeMail' | 'takeAttachment'>;
  approvald: Pick<Client<typeof approvaldRoutes>, 'decideByReply'>;
  parser: MailParser;
  domain: string;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
};

const BATCH_MAX = 32;
const DECIDED = { status: 'done', became: 'decision' } as const;
const REFUSED = { status: 'failed', detail: 'nothing was decided' } as const;
const BACKOFF_MS = { min: 200, max: 5_000 };
const RETRY_MS = { min: 500, max: 10_000 };
const PERSON = 'person:';
const AGENT = 'agent:';

export function makeHandover(deps: HandoverDeps): Handover {
  const { store, clock, log, failpoint } = deps;

  const toAgent = async (due: DueRecipient): Promise<void> => {
    failpoint('maild.before-handover');
    const taken = await giveToAgent(deps, due).catch((error: unknown) => {
      // It was taken with a text that has been forgotten since, and the answer was lost.
      if (isFault(error, 'idempotency_mismatch')) return undefined;
      throw error;
    });
    failpoint('maild.after-handover');
    const became = taken && { became: taken.became, taskId: taken.task_id };
    await store.endRecipient(due, { status: 'done', ...became });
  };

  const toApprovals = async (due: DueRecipient): Promise<void> => {
    failpoint('maild.before-decision');
    const decided = await giveToApprovals(deps, due);
    failpoint('maild.after-decision');
    await store.endRecipient(due, decided ? DECIDED : REFUSED);
  };

  const toPeople = async (due: readonly DueRecipient[]): Promise<void> => {
    if (due.length === 0) return;
    await deps.delivery.deliverRaw(due.map((one) => toRawMail(deps, one)));
    for (const one of due) await store.endRecipient(one, { status: 'done', became: 'mail' });
  };

  const fail = async (due: DueRecipient, error: unknown): Promise<void> => {
    const detail = (error as Error).message.slice(0, 300);
    if (isTransient(error) || isFault(error, 'halted')) {
      const delayMs = Math.min(RETRY_MS.min * 2 ** Math.min(due.attempts, 8), RETRY_MS.max);
      await store.postpone(due, clock.nowMs() + delayMs);
      return;
    }
    log.warn('a mail could not be handed over', { mail: due.mail_id, to: due.recipient, error });
    await notifySender(deps, due, detail);
    await store.endRecipient(due, { status: 'failed', detail });
  };

  const loop = makeWakeLoop({
    clock,
    async work() {
      const due = await store.listDue(BATCH_MAX);
      const people = due.filter(({ recipient }) => recipient.startsWith(PERSON));
      const agents = due.filter(({ recipient }) => recipient.startsWith(AGENT));
      const replies = due.filter(({ recipient }) => recipient.startsWith('service:'));
      await Promise.all([
        toPeople(people).catch(async (error: unknown) => {
          for (const one of people) await fail(one, error);
        }),
        ...agents.map((one) => toAgent(one).catch((error: unknown) => fail(one, error))),
        ...replies.map((one) => toApprovals(one).catch((error: unknown) => fail(one, error))),
      ]);
      return store.findNextMs();
    },
    backoffMs: BACKOFF_MS,
    onError: (error) => log.warn('handing over mail failed; retrying', { error }),
  });

  return { wake: loop.wake, stop: loop.stop };
}

/** The mail that it answers, in the mailbox of the person who sends it. */
async function findAnswered(
  { findByMessage }: HandoverDeps,
  { sender, answers }: IncomingRow,
): Promise<MailRow | undefined> {
  if (!sender.startsWith(PERSON)) return undefined;
  for (const id of JSON.parse(answers) as string[]) {
    const found = await findByMessage(sender.slice(PERSON.length), id);
    if (found?.context_id != null) return found;
  }
  return undefined;
}

async function giveToAgent(deps: HandoverDeps, { mail, recipient }: DueRecipient) {
  const { agentd, delivery } = deps;
  const agent = recipient.slice(AGENT.length);
  const key = `${mail.id} ${agent}`;
  const answered = await findAnswered(deps, mail);
  const artifacts = mail.attachments === 0 ? [] : await storeAttachments(deps, mail, key);
  const taken = await agentd.takeMail({
    body: {
      key,
      from: mail.sender as never,
      owner: mail.owner,
      to: agent as never,
      text: writeRequest(mail, answered),
      artifacts,
      wait_id: answered?.kind === 'question' ? (answered.id.split('.')[0] as WaitId) : null,
      task_id: (answered?.task_id ?? null) as TaskId | null,
      context_id: (answered?.context_id ?? null) as ContextId | null,
    },
  });
  if (mail.sender.startsWith(PERSON))
    await delivery.addSent({
      id: `${mail.id}.to-${agent}`,
      box: mail.sender.slice(PERSON.length),
      kind: 'sent',
      message_id: mail.message_id,
      context_id: taken.context_id,
      task_id: taken.task_id,
      subject: mail.subject === '' ? '(no subject)' : mail.subject,
      at_ms: Number(mail.taken_ms),
    });
  return taken;
}

/** The subject of a reply is that of the thread, and says nothing new. */
function writeRequest({ subject, text }: IncomingRow, answered: MailRow | undefined): string {
  if (answered !== undefined && text !== '') return text;
  const all = [subject, text].filter((part) => part !== '').join('\n\n');
  return all === '' ? 'See the attachments.' : all;
}

async function storeAttachments({ agentd, parser }: HandoverDeps, mail: IncomingRow, key: string) {
  const parsed = await parser.parse(mail.raw!, true);
  if ('problem' in parsed) throw new Error(parsed.problem);
  const ids = [];
  for (const [i, { name, mimeType, content }] of parsed.mail.attachments.entries()) {
    const bytes = Buffer.from(content!);
    // A text in it may be forgotten before the mail is taken: then it is another attachment.
    const of = sha256Hex(bytes).slice(0, 16);
    const { artifact_id } = await agentd.takeAttachment({
      body: {
        key: `${key} ${i} ${of}`,
        from: mail.sender as never,
        artifact: { name, mime_type: mimeType, base64: bytes.toString('base64') },
      },
    });
    ids.push(artifact_id);
  }
  return ids;
}

const toRawMail = ({ domain }: HandoverDeps, { mail, recipient }: DueRecipient) => {
  const box = recipient.slice(PERSON.length);
  return {
    id: `${mail.id}.to-${box}`,
    box,
    messageId: mail.message_id,
    subject: mail.subject,
    content: traceMail(mail, { box, domain }),
    atMs: Number(mail.taken_ms),
    by: mail.sender,
  };
};

/** A person hears of it; nobody outside does, since an answer could start a loop. */
async function notifySender(
  { delivery, domain }: HandoverDeps,
  { mail, recipient }: DueRecipient,
  reason: string,
): Promise<void> {
  if (!mail.sender.startsWith(PERSON)) return;
  await delivery.deliver([
    {
      id: `${mail.id}.refused`,
      box: mail.sender.slice(PERSON.length),
      kind: 'refused',
      from: { name: 'agentd', address: `postmaster@${domain}` },
      title: `not handed over: ${mail.subject}`,
      text: `Your mail was not given to ${recipient.replace(':', ' ')}:\n\n${reason}\n`,
      contextId: null,
      taskId: null,
      atMs: Number(mail.taken_ms),
      isAutomatic: true,
      by: 'service:maild',
    },
  ]);
}
