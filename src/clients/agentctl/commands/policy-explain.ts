// agentctl policy explain: one event of the log, and the rules that decided about it.
import type { RuleView } from '../../../wire/agentd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { clock } from '../show/event.ts';
import { plain } from '../show/plain.ts';
import { renderFields } from '../show/table.ts';
import { proofOf } from './audit-files.ts';
import { ANSWER_STYLES } from './policy.ts';

type Explanation = {
  event: AuditEvent;
  /** null: policy was not asked; another check decided. */
  answer: string | null;
  version: number | null;
  version_in_force: number;
  touches: string[];
  /** A rule that is not there any more is only a name. */
  rules: (RuleView | { id: string })[];
};

export async function explain({ args, out, runtime }: Session): Promise<void> {
  const event = await findEvent(runtime(), args.words[0]!);
  if (event.policy === undefined)
    throw fault('bad_request', `${event.id} is no decision (${event.event})`, {
      hint: decisionHint(event),
    });
  const explanation = await explainEvent(runtime(), event);
  out.print({ explanation }, () => lines(explanation, out));
}

/** What ended was attempted before, and that was decided. */
function decisionHint({ event, call_id, data }: AuditEvent): string {
  return /\.call\.ended$/.test(event) && typeof data?.attempt === 'number'
    ? `What was decided: agentctl policy explain ${call_id}.attempted.${data.attempt}`
    : 'Name a decision, such as one of: agentctl audit tail --event tool.call.denied';
}

/** The proof carries the event as the log has it. */
async function findEvent(runtime: RuntimeClient, id: string): Promise<AuditEvent> {
  const { event } = await proofOf(runtime, id);
  return JSON.parse(event) as AuditEvent;
}

async function explainEvent(runtime: RuntimeClient, event: AuditEvent): Promise<Explanation> {
  const { data = {}, agent } = event;
  const ids = event.policy!.split(' ').filter((id) => id.includes(':'));
  const view =
    agent === undefined
      ? undefined
      : await runtime
          .ask('agentd', 'showPolicy', { params: { name: agent } })
          .catch((error: unknown) => {
            // The agent may be gone; its rules are told by their names then.
            if (error instanceof Fault && error.code === 'not_found') return undefined;
            throw error;
          });
  const { policy } = await runtime.ask('agentd', 'getPolicy', {});
  const known = new Map(view?.rules.map((rule) => [rule.id, rule]));
  const isAnswer = typeof data.answer === 'string';
  return {
    event,
    answer: isAnswer ? String(data.answer) : null,
    version: typeof data.policy_version === 'number' ? data.policy_version : null,
    version_in_force: policy.version,
    touches: Object.entries(data).flatMap(([name, value]) =>
      /^touch_\d+$/.test(name) ? [touchText(String(value))] : [],
    ),
    rules: ids.map((id) => known.get(id) ?? { id }),
  };
}

function touchText(written: string): string {
  try {
    const [action, what, more, method] = JSON.parse(written) as unknown[];
    const port = typeof more === 'number' ? `:${more}` : more === true ? ' and all below' : '';
    return `${action} ${what}${port}${typeof method === 'string' ? ` (${method})` : ''}`;
  } catch {
    return written;
  }
}

function lines(explanation: Explanation, out: Out): string[] {
  const { event, answer, version, rules, touches } = explanation;
  const said = answer === null ? 'decided before policy was asked' : answer;
  const style = ANSWER_STYLES[answer ?? ''];
  return [
    ...renderFields(
      [
        ['event', event.id],
        ['when', clock(event.ts, Date.now())],
        ['who', event.principal ?? event.agent],
        ['tool', event.tool],
        ['task', event.task_id],
        ['touches', touches.map(plain).join('\n')],
        ['marks', String(event.data?.labels ?? '')],
        ['answer', style === undefined ? said : out.paint(style, said)],
        ['policy', version === null ? undefined : `version ${version}`],
      ],
      out.paint,
    ),
    ...rules.flatMap((rule) => ['', ...ruleLines(rule, out)]),
    ...note(explanation),
  ];
}

function ruleLines(rule: RuleView | { id: string }, out: Out): string[] {
  if (!('text' in rule)) return [`${out.paint('bold', plain(rule.id))}  ${withoutText(rule.id)}`];
  const why = rule.why === null ? '' : `: ${plain(rule.why)}`;
  return [
    `${out.paint('bold', plain(rule.id))}  ${rule.effect} (${plain(rule.from)})${why}`,
    ...rule.text.split('\n').map((line) => `    ${plain(line)}`),
  ];
}

const withoutText = (id: string): string =>
  /^(base|site|manifest):/.test(id) ? 'this rule is not there any more' : 'no rule of a file';

function note({ answer, version, version_in_force: now, rules }: Explanation): string[] {
  if (answer === 'deny' && rules.every(({ id }) => id === 'policy:nothing-allows-it'))
    return ['', 'No rule allows it, and what nothing allows is denied.'];
  if (version === null || version === now) return [];
  return ['', `The rules are shown as they are now, in version ${now}.`];
}
