// email.send_external: a mail to people who have no name here. maild sends it in the background,
// and the call waits until the smarthost has it or it has failed.
import * as z from 'zod';
import { isFault } from '../../../platform/daemon.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Client } from '../../../platform/link.ts';
import { toMailPrincipal } from '../../../policy/principals.ts';
import type { WaitView } from '../../../wire/agentd.ts';
import { ExternalMail, ExternalMailOutcome } from '../../../wire/maild/external.ts';
import type { maildRoutes } from '../../../wire/maild.ts';
import { buildCallError } from '../rules.ts';
import {
  type AgentdClient,
  type Effect,
  forRun,
  openOutcomeFault,
  peerOptions,
  readUnanswered,
  type Tool,
  type ToolContext,
  type ToolOutcome,
  tool,
} from './tool.ts';

export type MaildClient = Pick<
  Client<typeof maildRoutes>,
  'previewExternal' | 'sendExternal' | 'findExternal' | 'forgetExternal'
>;

const ACTION_CHARS_MAX = 64;

/** Says what replies of mail servers mean (RFC 3463): their own words are text of others. */
const MEANINGS: readonly (readonly [RegExp, string])[] = [
  [/^5\.1\./, 'there is no such address'],
  [/^[45]\.2\.2/, 'the mailbox is full'],
  [/^[45]\.2\./, 'the mailbox cannot take mail'],
  [/^[45]\.3\.4|^[45]\.2\.3/, 'the mail is too large'],
  [/^[45]\.4\./, 'the server of the recipient cannot be reached'],
  [/^[45]\.7\./, 'it is refused by a rule of a mail server'],
];

type Recipient = ExternalMailOutcome['recipients'][number];

function describeReply({ code, enhanced }: Recipient): string {
  if (code === null) return 'the smarthost could not be reached';
  const meaning = MEANINGS.find(([pattern]) => pattern.test(enhanced ?? ''))?.[1];
  const reply = [String(code), enhanced].filter((part) => part !== null).join(' ');
  return meaning === undefined ? `reply ${reply}` : `${meaning} (${reply})`;
}

const describeRefused = ({ recipients }: ExternalMailOutcome): string =>
  recipients
    .filter(({ accepted }) => !accepted)
    .map((one) => `${one.address}: ${describeReply(one)}`)
    .join('; ');

function readMailOutcome(wait: WaitView): ToolOutcome | { unknown: true } {
  const unanswered = readUnanswered(wait, 'the mail');
  if (unanswered !== undefined) return unanswered;
  const outcome = ExternalMailOutcome.parse(wait.answer);
  const { status, message_id } = outcome;
  switch (status) {
    case 'unknown':
      return { unknown: true };
    case 'withdrawn': {
      const hint = 'Continue without it, or end the task.';
      const error = buildCallError('canceled', 'the mail was withdrawn before it was sent', hint);
      return { status: 'canceled', error };
    }
    case 'failed': {
      const message = `the mail was accepted for nobody: ${describeRefused(outcome)}`;
      const hint = 'Check the addresses; the person of this task has been told.';
      return { status: 'failed', error: buildCallError('not_accepted', message, hint) };
    }
    default: {
      const accepted = outcome.recipients.filter((one) => one.accepted);
      const refused = outcome.recipients.filter((one) => !one.accepted);
      return {
        status: 'completed',
        result: {
          message_id,
          accepted: accepted.map(({ address }) => address),
          refused: refused.map((one) => ({ address: one.address, why: describeReply(one) })),
        },
      };
    }
  }
}

export function emailTools(deps: {
  agentd: Pick<AgentdClient, 'toolAwaitMail'>;
  maild: MaildClient;
}): Tool[] {
  const { agentd, maild } = deps;

  const awaitMail = async (
    mail: { id: string; ends_at: string },
    context: ToolContext,
  ): Promise<Effect> => {
    const body = { ...forRun(context), mail_id: mail.id, expires_at: mail.ends_at };
    return agentd.toolAwaitMail({ body: body as never }, peerOptions).catch(leaveOpen);
  };

  const send = tool({
    name: 'email.send_external',
    description:
      'Send a mail to people outside this system, as plain text. A person sees the recipients, the ' +
      'subject and the text, and decides. You wait until the mail server has accepted it, which ' +
      'says nothing about whether it was read. For agents and people here use message.send.',
    risk: 'high',
    reversibility: 'irreversible',
    idempotent: true,
    level: 'L0',
    timeoutMs: 60_000,
    callsPerRunMax: 100,
    rollback: 'A mail that was sent cannot be called back.',
    input: ExternalMail,
    output: z.object({
      message_id: z.string(),
      accepted: z.array(z.string()).describe('the mail server has it for these'),
      refused: z.array(z.object({ address: z.string(), why: z.string() })),
    }),
    // A permit for one recipient must cover no other.
    describeAction: ({ to, cc }) => {
      const recipients = [...to, ...cc].toSorted().join(' ');
      const action = `email.send_external ${recipients}`;
      if (action.length <= ACTION_CHARS_MAX) return action;
      return `email.send_external ${sha256Hex(recipients).slice(0, 40)}`;
    },
    touches: ({ to, cc }) =>
      [...to, ...cc].map((address) => ({
        action: 'message.send',
        to: toMailPrincipal(address),
        messageType: 'Email',
      })),
    async preview(mail, { agent }) {
      const body = { agent: agent as never, mail };
      return (await maild.previewExternal({ body }, peerOptions)).text;
    },
    async recall(context) {
      const { mail } = await maild.findExternal(
        { params: { call_id: context.callId } },
        peerOptions,
      );
      return mail === null ? undefined : awaitMail(mail, context);
    },
    async forget({ callId }) {
      await maild.forgetExternal({ params: { call_id: callId } }, peerOptions);
    },
    async perform(mail, context) {
      const { runId, callId, taskId, rootTaskId, agent } = context;
      const ids = { run_id: runId, call_id: callId, task_id: taskId, root_task_id: rootTaskId };
      const body = { ...ids, agent: agent as never, mail };
      const taken = await maild.sendExternal({ body }, peerOptions).catch(leaveOpen);
      return awaitMail(taken.mail, context);
    },
    readWaitOutcome: readMailOutcome,
  });

  return [send];
}

/** maild may have taken it: the next attempt finds out. */
function leaveOpen(error: unknown): never {
  if (isFault(error) && error.retry) throw openOutcomeFault(error);
  throw error;
}
