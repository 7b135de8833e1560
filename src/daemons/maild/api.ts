// Handles maild's routes. A person with a key of their own reads only their own mailbox.

import type { Clock } from '../../platform/clock.ts';
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import { deriveId, type NewId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import { findKeyOwner } from '../../platform/person-keys.ts';
import type { Caller } from '../../wire/caller.ts';
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';
import { fault } from '../../wire/errors.ts';
import type { externalMailRoutes } from '../../wire/maild/external.ts';
import type { maildRoutes } from '../../wire/maild.ts';
import type { Delivery } from './delivery.ts';
import { toSender } from './intake/authenticate.ts';
import type { Intake } from './intake/intake.ts';
import type { Mailbox } from './mailbox.ts';
import type { DeliverNotices } from './notices.ts';
import type { SmtpRefusal } from './rules/raw-message.ts';
import { completeSubmission } from './rules/submission.ts';
import type { MaildStore } from './store/store.ts';

type Routes = typeof maildRoutes;
type SendBody = HandlerContext<Routes['sendMail']>['body'];

export type MaildApiDeps = {
  delivery: Delivery;
  deliverNotices: DeliverNotices;
  mailbox: Mailbox;
  intake: Intake;
  outgoing: Handlers<typeof externalMailRoutes>;
  once: MaildStore['once'];
  eraseCopies(order: EraseCopies): Promise<ErasedCopies>;
  /** Throws unless a person of this name can get mail. */
  assertMailbox(box: string): Promise<void>;
  domain: string;
  clock: Clock;
  newId: NewId;
};

const nameOf = (caller: Caller): string => caller.principal.replace(/^person:/, '');

function findBox(caller: Caller, box: string | undefined): string {
  const own = nameOf(caller);
  if (box === undefined || box === own) return own;
  if (findKeyOwner(caller) !== undefined)
    throw fault('forbidden_caller', `${own} may not read the mail of ${box}`, {
      hint: 'A person with a key of their own reads their own mail.',
    });
  return box;
}

export function makeHandlers(deps: MaildApiDeps): Handlers<Routes> {
  const { delivery, mailbox, clock, newId, domain } = deps;

  const send = async (id: string, body: SendBody, caller: Caller) => {
    const from = nameOf(caller);
    await delivery.deliver([
      {
        id,
        box: body.to,
        kind: 'mail',
        from: { name: from, address: delivery.addressOf(from) },
        title: body.subject ?? firstLine(body.text),
        text: body.text,
        contextId: null,
        taskId: null,
        atMs: clock.nowMs(),
        isAutomatic: false,
        by: caller.principal,
      },
    ]);
    return { mail: { id, message_id: `${id}@${domain}` } };
  };

  return {
    ...deps.outgoing,
    eraseCopies: ({ body }) => deps.eraseCopies(body),
    deliverNotices: async ({ body, caller }) => ({
      delivered: await deps.deliverNotices(body.notices, caller.principal),
    }),
    async sendMail({ body, caller, idempotencyKey }: HandlerContext<Routes['sendMail']>) {
      await deps.assertMailbox(body.to);
      const key = idempotencyKey;
      // A repeat after a crash has the same id, so that it is delivered once.
      const id =
        key === undefined ? newId<string>('mail') : deriveId<string>('mail', caller.principal, key);
      const once = key && {
        scope: `${caller.principal} sendMail`,
        key,
        requestHash: hashJson(body),
      };
      return deps.once(once || undefined, () => send(id, body, caller));
    },
    async submitMail({ body, caller }) {
      const sender = toSender(caller);
      const { raw, to } = completeSubmission(Buffer.from(body.raw_base64, 'base64'), {
        address: delivery.addressOf(sender.name),
        messageId: `${newId<string>('mail')}@${domain}`,
        nowMs: clock.nowMs(),
        readsRecipients: body.reads_recipients,
        to: body.to,
      });
      if (to.length === 0) throw fault('bad_request', 'the mail names no recipient');
      if (to.length > RECIPIENTS_MAX)
        throw fault('bad_request', `a mail has up to ${RECIPIENTS_MAX} recipients`);
      const { intake } = deps;
      for (const address of to) throwRefusal(await intake.checkRecipient(sender, address));
      const from = body.is_bounce === true ? '' : delivery.addressOf(sender.name);
      throwRefusal(await intake.take({ sender, from, to }, raw));
      return { recipients: to };
    },
    async listMail({ query, caller }) {
      const box = findBox(caller, query.box);
      return { box, ...(await mailbox.list(box, query.limit)) };
    },
    readMail: async ({ body, caller }) => ({
      mail: await mailbox.read(findBox(caller, body.box), body.n),
    }),
  };
}

const RECIPIENTS_MAX = 100;

/** The same words as by SMTP, as a fault. */
function throwRefusal(refusal: SmtpRefusal | undefined): void {
  if (refusal === undefined) return;
  const { code, text } = refusal;
  const message = text.replace(/^\d\.\d\.\d /, '');
  if (text.startsWith('5.1.')) throw fault('not_found', message, { hint: 'See agentctl list.' });
  if (text.startsWith('5.7.')) throw fault('denied', message, { hint: 'See docs/mail.md.' });
  throw fault(code === 552 ? 'too_large' : 'bad_request', message);
}

const SUBJECT_CHARS_MAX = 80;

/** The subject of a text that has none. */
function firstLine(text: string): string {
  const line = text.trim().split('\n', 1)[0]!.trim();
  return line.length > SUBJECT_CHARS_MAX ? `${line.slice(0, SUBJECT_CHARS_MAX)}…` : line;
}
