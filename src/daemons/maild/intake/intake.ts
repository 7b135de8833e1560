// Takes mail in: who sends it is known from the socket or the key, never from the mail. Everything
// that can be refused is refused to the sender; what is taken is durable before the sender knows.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { artifactSizeBytesMax } from '../../../wire/agentd.ts';
import type { PersonRole } from '../../../wire/caller.ts';
import type { ParsedMail } from '../parser/messages.ts';
import type { MailParser } from '../parser/parser.ts';
import { checkRawMail, type SmtpRefusal } from '../rules/raw-message.ts';
import { type Directory, type Recipient, resolveAddress } from '../rules/recipients.ts';
import type { IncomingRow, IncomingStore, NewRecipient } from '../store/incoming.ts';
import type { MailRow } from '../store/schema.ts';

export type PersonSender = {
  kind: 'person';
  name: string;
  owner: string | undefined;
  role: PersonRole;
};
export type MailSender = PersonSender | { kind: 'outside'; through: 'smtp' | 'lmtp' };

export type Envelope = {
  sender: MailSender;
  /** Empty for the null sender, which gets no answer. */
  from: string;
  to: readonly string[];
};

export type Intake = {
  /** Returns why this sender may not write to this address. */
  checkRecipient(sender: MailSender, address: string): Promise<SmtpRefusal | undefined>;
  /** Returns why the mail is not taken; otherwise it is durable. */
  take(envelope: Envelope, raw: Buffer): Promise<SmtpRefusal | undefined>;
};

export type IntakeDeps = {
  store: IncomingStore;
  findByMessage(box: string, messageId: string): Promise<MailRow | undefined>;
  parser: MailParser;
  /** `addresses` are those that are looked up: not every one needs all of it. */
  directory(addresses: readonly string[]): Promise<Directory>;
  /** Asks policy whether mail from outside may reach this recipient. */
  permitsOutside(principal: string, to: Recipient): Promise<boolean>;
  /** Throws while the audit log accepts no events. */
  assertAuditAccepting(): void;
  onTaken(): void;
  clock: Clock;
  newId: NewId;
  failpoint(name: string): void;
};

export const principalOf = (sender: MailSender): string =>
  sender.kind === 'person' ? `person:${sender.name}` : `external:mail:${sender.through}`;

const refuse = (code: number, text: string): SmtpRefusal => ({ code, text });

export function makeIntake(deps: IntakeDeps): Intake {
  const { store, parser, clock, newId, failpoint } = deps;

  const checkRight = async (
    sender: MailSender,
    to: Recipient,
  ): Promise<SmtpRefusal | undefined> => {
    if (to.kind === 'service') return checkDecider(sender);
    if (sender.kind === 'outside')
      return (await deps.permitsOutside(principalOf(sender), to))
        ? undefined
        : refuse(550, `5.7.1 no rule permits mail from outside to ${to.name}`);
    if (to.kind === 'agent' && sender.role === 'reader')
      return refuse(550, `5.7.1 the key of ${sender.name} may only read`);
    return undefined;
  };

  /** A key that may only decide may answer a question, and start nothing. */
  const checkApprover = async (
    sender: MailSender,
    mail: ParsedMail,
    to: readonly Recipient[],
  ): Promise<SmtpRefusal | undefined> => {
    if (sender.kind !== 'person' || sender.role !== 'approver') return undefined;
    if (!to.some(({ kind }) => kind === 'agent')) return undefined;
    for (const id of mail.answers)
      if ((await deps.findByMessage(sender.name, id))?.kind === 'question') return undefined;
    return refuse(550, `5.7.1 the key of ${sender.name} may answer questions, and start nothing`);
  };

  const resolve = (addresses: readonly string[], directory: Directory): Recipient[] => {
    const found = new Map<string, Recipient>();
    for (const address of addresses) {
      const resolved = resolveAddress(address, directory);
      if (resolved.ok) for (const to of resolved.to) found.set(`${to.kind}:${to.name}`, to);
    }
    return [...found.values()];
  };

  return {
    async checkRecipient(sender, address) {
      const resolved = resolveAddress(address, await deps.directory([address]));
      if (!resolved.ok) return resolved.refusal;
      for (const to of resolved.to) {
        const refusal = await checkRight(sender, to);
        if (refusal !== undefined) return refusal;
      }
      return undefined;
    },
    async take({ sender, from, to: addresses }, raw) {
      deps.assertAuditAccepting();
      const checked = checkRawMail(raw);
      if (!checked.ok) return checked.refusal;
      const parsed = await parser.parse(raw, false);
      if ('problem' in parsed)
        return refuse(554, `5.6.0 the mail cannot be read: ${parsed.problem}`);
      const { mail } = parsed;
      const directory = await deps.directory(addresses);
      const to = resolve(addresses, directory);
      const refusal =
        checkFrom(sender, mail.from, directory.domains[0]!) ??
        checkContent(mail, to) ??
        (await checkApprover(sender, mail, to));
      if (refusal !== undefined) return refusal;
      const row = toRow({ id: newId('mail'), sender, from, mail, raw, nowMs: clock.nowMs() });
      const isAutomatic = from === '' || mail.isAutomatic;
      const content = sha256Hex(raw.subarray(checked.bodyAt));
      const date = mail.messageId === null ? readDate(checked.head) : '';
      const recipients = to.map((one): NewRecipient => {
        const recipient = `${one.kind}:${one.name}`;
        const identity = [row.sender, from, mail.messageId, date, mail.subject, content, recipient];
        return {
          recipient,
          fingerprint: sha256Hex(JSON.stringify(identity)),
          status: isAutomatic && one.kind !== 'person' ? 'ignored' : 'due',
        };
      });
      failpoint('maild.before-take');
      await store.take(row, recipients);
      failpoint('maild.after-take');
      deps.onTaken();
      return undefined;
    },
  };
}

/** Only a person's own key says that it is that person; approvald checks the rest. */
function checkDecider(sender: MailSender): SmtpRefusal | undefined {
  if (sender.kind === 'outside')
    return refuse(550, '5.7.1 decisions are taken from people who log in with their key');
  if (sender.owner === undefined)
    return refuse(550, `5.7.1 ${sender.name} has no key of their own: agentctl person add NAME`);
  if (sender.role === 'reader') return refuse(550, `5.7.1 the key of ${sender.name} may only read`);
  return undefined;
}

/** Nobody writes in the name of another person here, or of an agent. */
function checkFrom(
  sender: MailSender,
  from: string | null,
  domain: string,
): SmtpRefusal | undefined {
  if (from === null || !from.endsWith(`@${domain}`)) return undefined;
  const name = from.slice(0, -domain.length - 1);
  if (sender.kind === 'person' && sender.name.toLowerCase() === name) return undefined;
  return refuse(550, `5.7.1 the field From says ${name}, and the sender is not ${name}`);
}

function checkContent(mail: ParsedMail, to: readonly Recipient[]): SmtpRefusal | undefined {
  const isForAgent = to.some(({ kind }) => kind === 'agent');
  if (!isForAgent) return undefined;
  const large = mail.attachments.find(({ sizeBytes }) => sizeBytes > artifactSizeBytesMax);
  if (large !== undefined)
    return refuse(
      552,
      `5.3.4 the attachment ${large.name} is larger than ${artifactSizeBytesMax} bytes`,
    );
  if (mail.text === '' && mail.subject === '' && mail.attachments.length === 0)
    return refuse(554, '5.6.0 the mail has no text');
  return undefined;
}

const readDate = (head: string): string => /^date:(.*)$/im.exec(head)?.[1]?.trim() ?? '';

function toRow(options: {
  id: string;
  sender: MailSender;
  from: string;
  mail: ParsedMail;
  raw: Buffer;
  nowMs: number;
}): Omit<IncomingRow, 'left_to_do'> {
  const { id, sender, from, mail, raw, nowMs } = options;
  return {
    id,
    sender: principalOf(sender),
    owner: sender.kind === 'person' ? (sender.owner ?? null) : null,
    envelope_from: from.slice(0, 320),
    message_id: mail.messageId ?? `${id}@agentd`,
    answers: JSON.stringify(mail.answers),
    subject: mail.subject,
    text: mail.text,
    attachments: mail.attachments.length,
    raw,
    taken_ms: nowMs,
  };
}
