// agentctl policy explain: shows a decision from the log and the rules behind it.
import type { RuleView } from '../../../wire/agentd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { formatClock } from '../show/event.ts';
import { replaceControls } from '../show/plain.ts';
import { renderFields } from '../show/table.ts';
import { readProof } from './audit-files.ts';
import { DECISION_STYLES } from './policy.ts';

type Explanation = {
  event: AuditEvent;
  /** null: another check decided before policy. */
  answer: string | null;
  version: number | null;
  version_in_force: number;
  touches: string[];
  /** A removed rule has only its id. */
  rules: (RuleView | { id: string })[];
};

export async function explain({ args, out, runtime }: Session): Promise<void> {
  const event = await findEvent(runtime(), args.positionals[0]!);
  if (event.policy === undefined)
    throw fault('bad_request', `${event.id} is not a decision (${event.event})`, {
      hint: hintForDecision(event),
    });
  const explanation = await explainEvent(runtime(), event);
  out.print({ explanation }, () => renderExplanation(explanation, out));
}

/** The decision about an ended call is on its attempt. */
function hintForDecision({ event, call_id, data }: AuditEvent): string {
  return /\.call\.ended$/.test(event) && typeof data?.attempt === 'number'
    ? `See its decision: agentctl policy explain ${call_id}.attempted.${data.attempt}`
    : 'List decisions: agentctl audit tail --event tool.call.denied';
}

async function findEvent(runtime: RuntimeClient, id: string): Promise<AuditEvent> {
  const { event } = await readProof(runtime, id);
  return JSON.parse(event) as AuditEvent;
}

async function explainEvent(runtime: RuntimeClient, event: AuditEvent): Promise<Explanation> {
  const { data = {}, agent } = event;
  const ids = event.policy!.split(' ').filter((id) => id.includes(':'));
  const view =
    agent === undefined
      ? undefined
      : await runtime
          .call('agentd', 'showPolicy', { params: { name: agent } })
          .catch((error: unknown) => {
            // A removed agent's rules are shown by id only.
            if (error instanceof Fault && error.code === 'not_found') return undefined;
            throw error;
          });
  const { policy } = await runtime.call('agentd', 'getPolicy', {});
  const known = new Map(view?.rules.map((rule) => [rule.id, rule]));
  const isAnswer = typeof data.answer === 'string';
  return {
    event,
    answer: isAnswer ? String(data.answer) : null,
    version: typeof data.policy_version === 'number' ? data.policy_version : null,
    version_in_force: policy.version,
    touches: Object.entries(data).flatMap(([name, value]) =>
      /^touch_\d+$/.test(name) ? [formatTouch(String(value))] : [],
    ),
    rules: ids.map((id) => known.get(id) ?? { id }),
  };
}

function formatTouch(written: string): string {
  try {
    const [action, what, more, method] = JSON.parse(written) as unknown[];
    const port = typeof more === 'number' ? `:${more}` : more === true ? ' and all below' : '';
    return `${action} ${what}${port}${typeof method === 'string' ? ` (${method})` : ''}`;
  } catch {
    return written;
  }
}

function renderExplanation(explanation: Explanation, out: Out): string[] {
  const { event, answer, version, rules, touches } = explanation;
  const text = answer === null ? 'decided before policy was evaluated' : answer;
  const style = DECISION_STYLES[answer ?? ''];
  return [
    ...renderFields(
      [
        ['event', event.id],
        ['when', formatClock(event.ts, Date.now())],
        ['who', event.principal ?? event.agent],
        ['tool', event.tool],
        ['task', event.task_id],
        ['touches', touches.map(replaceControls).join('\n')],
        ['marks', String(event.data?.labels ?? '')],
        ['decision', style === undefined ? text : out.paint(style, text)],
        ['policy', version === null ? undefined : `version ${version}`],
      ],
      out.paint,
    ),
    ...rules.flatMap((rule) => ['', ...renderRule(rule, out)]),
    ...renderFootnote(explanation),
  ];
}

function renderRule(rule: RuleView | { id: string }, out: Out): string[] {
  if (!('text' in rule))
    return [`${out.paint('bold', replaceControls(rule.id))}  ${describeMissingRule(rule.id)}`];
  const why = rule.why === null ? '' : `: ${replaceControls(rule.why)}`;
  return [
    `${out.paint('bold', replaceControls(rule.id))}  ${rule.effect} (${replaceControls(rule.from)})${why}`,
    ...rule.text.split('\n').map((line) => `    ${replaceControls(line)}`),
  ];
}

const describeMissingRule = (id: string): string =>
  /^(base|site|manifest):/.test(id) ? 'rule no longer exists' : 'not a file rule';

function renderFootnote({ answer, version, version_in_force: now, rules }: Explanation): string[] {
  if (answer === 'deny' && rules.every(({ id }) => id === 'policy:nothing-allows-it'))
    return ['', 'No rule allows it, so it is denied by default.'];
  if (version === null || version === now) return [];
  return ['', `The rules are shown as of version ${now}.`];
}
