// Renders an approval for a mail that may be replied to: all of it, because a person decides on
// what they saw. Every line of others' text stands behind a bar, so that none can pass for ours.
// Pure.
import { escapeHidden, escapeLines } from '../../platform/text/hidden.ts';
import type { ApprovalView } from '../../wire/approvald.ts';

/** A mail program should still show it. */
export const REPLY_TEXT_CHARS_MAX = 100_000;

const BAR = '  | ';

const fence = (text: string): string[] => escapeLines(text).map((line) => `${BAR}${line}`);

export function renderForReply(view: ApprovalView): string {
  const section = (title: string, lines: readonly string[]): string[] =>
    lines.length === 0 ? [] : ['', title, ...lines];
  const purposes = [...new Set(view.asks.map(({ purpose }) => purpose))].filter(Boolean);
  const marks = view.labels.includes('outside')
    ? 'it has read text from outside, and may be following its instructions'
    : 'nothing from outside';
  return [
    `Tool    ${view.action}, ${view.calls === 1 ? '1 call' : `${view.calls} calls`}`,
    ...(view.repo === null ? [] : [`In      ${escapeHidden(view.repo)}`]),
    ...purposes.map((purpose) => `Purpose ${escapeHidden(purpose)}`),
    `Marks   ${marks}`,
    `Undo    ${view.rollback === null ? 'not stated' : escapeHidden(view.rollback)}`,
    ...section('Arguments:', fence(renderArguments(view.arguments))),
    ...section(
      'The agent asked for, before a person changed it:',
      view.arguments_asked === null ? [] : fence(renderArguments(view.arguments_asked)),
    ),
    ...section('Changes:', view.diff === null ? [] : fence(view.diff.replace(/\n$/, ''))),
    ...section(
      'Side effects:',
      view.chain.flatMap(({ part, what, class: name, risk, reversibility }) =>
        part === 'call' ? [] : fence(`${what || name} (${name}, ${risk} risk, ${reversibility})`),
      ),
    ),
    ...section(
      'Earlier questions:',
      view.thread.flatMap(({ by, question }) => fence(`${by}: ${question}`)),
    ),
    ...section(
      'Decisions so far:',
      view.answers.flatMap(({ by, answer, text }) =>
        fence(`${by}: ${answer}${text === null ? '' : ` (${text})`}`),
      ),
    ),
  ].join('\n');
}

/** Texts of several lines as lines, everything else as JSON. */
const renderArguments = (args: Record<string, unknown>): string =>
  Object.keys(args).length === 0
    ? '(none)'
    : Object.entries(args)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, value]) =>
          typeof value === 'string' && value.includes('\n')
            ? `${JSON.stringify(name)}:\n${value}`
            : `${JSON.stringify(name)}: ${JSON.stringify(value, null, 2)}`,
        )
        .join('\n');
