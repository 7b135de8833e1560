// The texts of notices to people. Pure.
import type { MessageView, TaskView, WaitView } from '../../wire/agentd.ts';
import { MAIL_TEXT_CHARS_MAX, type MailNotice } from '../../wire/maild.ts';
import { AgentName } from '../../wire/primitives.ts';

export type NoticeText = Pick<MailNotice, 'from' | 'title' | 'text' | 'context_id' | 'task_id'>;

const TITLE_CHARS_MAX = 80;
const FOOTER_CHARS = 1_000;

export function writeResult(task: TaskView): NoticeText {
  const { id, status, result, error, reason } = task;
  const body =
    status === 'completed'
      ? (result ?? '(no result)')
      : [result, error?.message ?? reason, error?.hint]
          .filter((line) => line != null && line !== '')
          .filter((line, i, all) => all.indexOf(line) === i)
          .join('\n\n');
  const rehearsal = task.rehearsal
    ? ' The rehearsal, a scripted stand-in for a model, wrote it.'
    : '';
  const stored = task.result_ref === null ? [] : [`Stored as ${task.result_ref}.`];
  return {
    from: task.assigned_to,
    title: `${status}: ${firstLine(task.goal)}`,
    text: withFooter(body, [
      `${id} is ${status}.${rehearsal}`,
      ...stored,
      `All of it: agentctl task show ${id}`,
    ]),
    context_id: task.context_id,
    task_id: id,
  };
}

export function writeQuestion(wait: WaitView, task: TaskView): NoticeText {
  const choices = wait.choices.map((choice) => `  - ${choice}`);
  return {
    from: task.assigned_to,
    title: `question: ${firstLine(wait.question ?? task.goal)}`,
    text: withFooter(
      [wait.question ?? '', ...(choices.length === 0 ? [] : ['', 'One of:', ...choices])].join(
        '\n',
      ),
      [
        ...(wait.expires_at === null ? [] : [`It waits until ${wait.expires_at}.`]),
        `Answer it: agentctl answer ${wait.id} "…"`,
        `The task: agentctl task show ${task.id}`,
      ],
    ),
    context_id: task.context_id,
    task_id: task.id,
  };
}

export function writeMessage(message: MessageView, text: string): NoticeText {
  const [kind, name] = message.from.split(':', 2);
  const agent = kind === 'agent' ? AgentName.safeParse(name).data : undefined;
  return {
    from: agent ?? null,
    title: firstLine(text),
    text: withFooter(text, [
      ...(agent === undefined ? [`From ${message.from}.`] : []),
      ...(message.task_id === null ? [] : [`The task: agentctl task show ${message.task_id}`]),
    ]),
    context_id: message.context_id,
    task_id: message.task_id,
  };
}

/** `-- ` begins a signature, which mail programs leave out of replies. */
const withFooter = (text: string, footer: readonly string[]): string =>
  [text.slice(0, MAIL_TEXT_CHARS_MAX - FOOTER_CHARS).trimEnd(), '', '-- ', ...footer].join('\n');

function firstLine(text: string): string {
  const line = text
    .trim()
    .split('\n', 1)[0]!
    .replace(/\p{Cc}+/gu, ' ')
    .trim();
  return line.length > TITLE_CHARS_MAX ? `${line.slice(0, TITLE_CHARS_MAX)}…` : line;
}
