// agentctl policy can: whether an agent may make a call, by which rules, and what would have to
// change.
import type { RuleView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { CallDecisionView, ToolView } from '../../../wire/toold.ts';
import type { Args, Session } from '../command.ts';
import { MARKS } from '../marks.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { replaceControls } from '../show/plain.ts';
import { renderTable } from '../show/table.ts';
import { findTool } from './catalog.ts';
import { DECISION_STYLES } from './policy.ts';

type Answer = CallDecisionView['answer'];
type Part = CallDecisionView['parts'][number];

const WORDS: Readonly<Record<Answer, string>> = { allow: 'yes', ask: 'ask', deny: 'no' };
/** As in the exit statuses of every command: 3 denied, 4 waiting for a person. */
const EXITS: Readonly<Record<Answer, number>> = { allow: 0, deny: 3, ask: 4 };

export async function can(session: Session): Promise<number | undefined> {
  const { args, out } = session;
  const runtime = session.runtime();
  const [agent, name, ...words] = args.positionals as [string, ...string[]];
  // Rejects an unknown agent by name.
  const { rules } = await runtime.call('agentd', 'showPolicy', { params: { name: agent } });
  if (args.flag('list')) {
    if (name !== undefined)
      throw fault('bad_usage', '--list takes no tool', { hint: 'Omit the tool, or --list.' });
    await listTools(session, runtime, agent);
    return undefined;
  }
  if (name === undefined)
    throw fault('bad_usage', 'policy can needs TOOL', { hint: 'Name a tool, or use --list.' });
  const tool = await findTool(runtime, name);
  const given = words.length === 0 ? undefined : readArguments(words, tool);
  const body = {
    agent,
    labels: readMarks(args),
    ...(given === undefined ? {} : { arguments: given }),
  };
  const { decision } = await runtime.call('toold', 'decideCall', {
    params: { name: tool.name },
    body,
  });
  const needed = decision.parts
    .filter(({ answer }) => answer === 'deny')
    .flatMap((part) => describeChange(part, agent, rules));
  const view = { agent, tool: tool.name, ...decision, needed: [...new Set(needed)] };
  out.print({ can: view }, () => renderDecision(view, rules, out));
  return EXITS[decision.answer];
}

const readMarks = (args: Args) => MARKS.filter((mark) => args.list('mark').includes(mark));

async function listTools({ args, out }: Session, runtime: RuntimeClient, agent: string) {
  const { agent: view } = await runtime.call('agentd', 'getAgent', { params: { name: agent } });
  const { tools } = await runtime.call('toold', 'listTools', {});
  const known = new Set(tools.map(({ name }) => name));
  const labels = readMarks(args);
  const rows = await Promise.all(
    view.tools.map(async (name) => {
      if (!known.has(name)) return { tool: name, answer: null, rules: [], reason: 'no tool yet' };
      const request = { params: { name }, body: { agent, labels } };
      const { decision } = await runtime.call('toold', 'decideCall', request);
      const parts = decision.parts.filter(({ answer }) => answer === decision.answer);
      return {
        tool: name,
        answer: decision.answer,
        rules: parts.flatMap(({ rules }) => rules),
        reason: decision.answer === 'allow' ? '' : parts.map(({ reason }) => reason).join('; '),
      };
    }),
  );
  const headers = [
    { title: 'TOOL' },
    { title: 'MAY' },
    { title: 'RULES', minWidth: 12 },
    { title: 'WHY', minWidth: 10 },
  ] as const;
  out.print({ tools: rows }, () =>
    renderTable(
      headers,
      rows.map(({ tool, answer, rules, reason }) => [
        tool,
        answer === null ? '–' : { text: WORDS[answer], style: DECISION_STYLES[answer]! },
        rules.join(' '),
        reason,
      ]),
      out,
    ),
  );
}

/** Reads key=value words, or one JSON object; the schema says which values are text. */
function readArguments(words: readonly string[], tool: ToolView): Record<string, unknown> {
  const [first = ''] = words;
  if (first.startsWith('{')) {
    const value = words.length === 1 ? parseValue(first) : undefined;
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
    throw fault('bad_usage', 'ARGS is not one JSON object', {
      hint: 'Put the object in single quotes.',
    });
  }
  const properties = (tool.input_schema.properties ?? {}) as Record<string, { type?: string }>;
  return Object.fromEntries(
    words.map((word) => {
      const [, key, text = ''] = /^([^=]+)=(.*)$/s.exec(word) ?? [];
      if (key === undefined)
        throw fault('bad_usage', `${word} is not key=value`, {
          hint: `Write arguments as key=value or as one JSON object; see agentctl tool show ${tool.name}.`,
        });
      const isText = Object.hasOwn(properties, key) && properties[key]!.type === 'string';
      return [key, isText ? text : (parseValue(text) ?? text)];
    }),
  );
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const MANIFEST_KEYS: readonly [action: RegExp, key: string][] = [
  [/^tool\.call$/, 'spec.tools.allow'],
  [/^file\.read$/, 'spec.filesystem.read'],
  [/^file\./, 'spec.filesystem.write'],
  [/^net\./, 'spec.network.allow'],
  [/^task\./, 'spec.team.delegateTo'],
  [/^message\./, 'spec.team.talkTo'],
];

/** Says what would have to change so that this part is no longer denied. */
function describeChange(
  { action, resource, rules, reason }: Part,
  agent: string,
  known: readonly RuleView[],
): string[] {
  const key = MANIFEST_KEYS.find(([pattern]) => pattern.test(action))?.[1];
  const add = `add ${resource} to ${key} of ${agent}'s manifest`;
  if (rules.length === 0) return [`${add}, or permit ${action} on it in a rule file`];
  return rules.map((id) => {
    if (id === 'toold:granted') return add;
    if (id === 'toold:suspended') return `resume it: agentctl tool resume ${resource}`;
    if (id.startsWith('toold:')) return reason;
    if (id.startsWith('base:')) return `nothing: ${id} is built in, and no rule overrides it`;
    const from = known.find((rule) => rule.id === id)?.from ?? id;
    return id.startsWith('manifest:')
      ? `change ${from} of ${agent}'s manifest`
      : `change or remove the rule at ${from}`;
  });
}

type DecisionView = CallDecisionView & { tool: string; agent: string; needed: string[] };

function renderDecision(view: DecisionView, known: readonly RuleView[], out: Out): string[] {
  const { answer, parts, needed, is_whole: isWhole } = view;
  const deciding = parts.filter((part) => part.answer === answer);
  return [
    out.paint(DECISION_STYLES[answer]!, WORDS[answer]),
    ...deciding.flatMap((part) => renderPart(part, known)),
    ...needed.map((change) => `to allow it: ${replaceControls(change)}`),
    ...(isWhole ? [] : ['Only the tool itself was decided: give ARGS to decide a whole call.']),
  ];
}

function renderPart(
  { action, resource, rules, reason }: Part,
  known: readonly RuleView[],
): string[] {
  const what = `${action} ${replaceControls(resource)}`;
  if (rules.length === 0) return [`  ${what}: ${replaceControls(reason)}`];
  return rules.map((id) => {
    const rule = known.find((one) => one.id === id);
    const from = rule === undefined ? '' : ` (${replaceControls(rule.from)})`;
    const why = rule === undefined ? reason : rule.why;
    return `  ${what}: ${id}${from}${why === null ? '' : `: ${replaceControls(why)}`}`;
  });
}
