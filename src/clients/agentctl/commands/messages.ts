// agentctl send, questions and answer.
import type { AgentView, MessageType, TaskView, WaitView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { readTextArgument } from '../input.ts';
import { makePartialResult, renderMissing } from '../missing.ts';
import type { Out } from '../out.ts';
import { formatRelative, pluralize } from '../show/amounts.ts';
import { replaceControls, toOneLine } from '../show/plain.ts';
import { wrap } from '../show/width.ts';

export async function send(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const [user, message] = args.positionals as [string, string];
  const { agents } = await runtime().call('agentd', 'listAgents', {});
  const text = readTextArgument(message);
  const agent = matchAgent(agents, user);
  if (agent === undefined && MAILBOX.test(user.replace(/^person:/, '')))
    return sendToPerson(session, user.replace(/^person:/, ''), text);
  const to = `agent:${findAgent(agents, user).name}`;
  const id = args.text('task');
  const task = id === undefined ? undefined : await readTask(runtime(), id);
  const thread = task === undefined ? {} : { task_id: task.id, context_id: task.context_id };
  const type = (args.text('type') ??
    (id === undefined ? 'TaskRequest' : 'TaskProgress')) as MessageType;
  const body = { type, to, parts: [{ kind: 'text' as const, text }], ...thread };
  const answer = await runtime().call('agentd', 'sendMessage', { body }, { idempotent: true });
  out.print(answer, () => {
    const { id: message_id, task_id } = answer.message;
    const sent = `Sent to ${to} (${message_id})`;
    if (task !== undefined && task.ended_at !== null) {
      return [
        `${sent}; the task is ${task.status}, so ${to} reads it at its next task in this thread.`,
        `To create a task there: agentctl task create "…" --context ${task.context_id}`,
      ];
    }
    return task_id === null ? [sent] : [sent, `Follow it: agentctl task watch ${task_id}`];
  });
}

/** The contracts import the schema library, so this is repeated. */
const MAILBOX = /^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/;

async function sendToPerson(session: Session, to: string, text: string): Promise<void> {
  const { args, out, runtime } = session;
  const subject = args.text('subject');
  const body = { to, text, ...(subject === undefined ? {} : { subject }) };
  const answer = await runtime().call('maild', 'sendMail', { body }, { idempotent: true });
  out.print(answer, () => [`Delivered to ${to}; they read it with agentctl mail`]);
}

function matchAgent(agents: readonly AgentView[], user: string): AgentView | undefined {
  const name = user.replace(/^agent:/, '');
  return (
    agents.find((agent) => agent.name === name) ?? agents.find((agent) => agent.linux_user === name)
  );
}

/** Finds an agent by name, Linux user or principal. */
export function findAgent(agents: readonly AgentView[], user: string): AgentView {
  const found = matchAgent(agents, user);
  if (found !== undefined) return found;
  throw fault('not_found', `agent ${user} not found`, {
    hint: `Use one of: ${agents.map((agent) => agent.name).join(', ') || 'none yet'}`,
  });
}

async function readTask(runtime: ReturnType<Session['runtime']>, id: string): Promise<TaskView> {
  const { task } = await runtime.call('agentd', 'getTask', { params: { id } });
  return task;
}

export async function questions({ args, out, runtime }: Session): Promise<void> {
  const all = args.flag('all');
  const status = all ? undefined : ('open' as const);
  const query = { kind: 'question', limit: 1000, status } as const;
  const answer = await runtime().call('agentd', 'listWaits', { query });
  out.print(answer, () => {
    if (answer.waits.length === 0) return [all ? 'No questions.' : 'No open questions.'];
    const blocks = answer.waits.flatMap((wait) => ['', ...describeQuestion(wait, out, Date.now())]);
    return blocks.slice(1);
  });
}

export function describeQuestion(wait: WaitView, { paint, columns }: Out, nowMs: number): string[] {
  const asked = wrap(replaceControls(wait.question ?? '(no text)'), Math.min(columns, 100) - 2);
  const choices = wait.choices.map((choice) => `  · ${toOneLine(choice)}`);
  const until =
    wait.expires_at === null ? '' : `, expires ${formatRelative(wait.expires_at, nowMs)}`;
  const askedAgo = formatRelative(wait.opened_at, nowMs);
  const head = `${paint('bold', wait.id)}  ${wait.task_id}, asked ${askedAgo}`;
  const end =
    wait.status === 'open'
      ? `  Answer it: agentctl answer ${wait.id} "…"`
      : `  ${wait.outcome ?? 'ended'}${wait.answered_by === null ? '' : ` by ${wait.answered_by}`}`;
  return [head + until, ...asked.map((line) => `  ${line}`), ...choices, paint('dim', end)];
}

export async function answer({ args, out, runtime }: Session): Promise<void> {
  const [id, text] = args.positionals as [string, string];
  const body = { answer: readTextArgument(text).trim() };
  const answered = await runtime().call('agentd', 'answerWait', { params: { id }, body });
  const open = { status: 'open', kind: 'question', limit: 1000 } as const;
  const parts = makePartialResult();
  const rest = await parts.collect(
    'open questions',
    runtime().call('agentd', 'listWaits', { query: open }),
  );
  out.print(answered, () => {
    const more =
      rest === undefined || rest.waits.length === 0 ? '' : ` ${formatMoreOpen(rest.waits.length)}`;
    const line = `Answered; ${answered.wait.task_id} resumes.${more}`;
    return [line, ...renderMissing(parts.missing, out.paint)];
  });
}

const formatMoreOpen = (n: number): string =>
  `${pluralize(n, 'more question')} open: agentctl questions`;
