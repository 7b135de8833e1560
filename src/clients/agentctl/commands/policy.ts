// agentctl policy check, show and simulate.
import { basename } from 'node:path';
import type { AgentPolicyView, SimulationView } from '../../../wire/agentd.ts';
import { FAULTS, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { readInput } from '../input.ts';
import { makePartialResult, renderMissing } from '../missing.ts';
import type { Out, Style } from '../out.ts';
import { readTime } from '../read-amounts.ts';
import { pluralize } from '../show/amounts.ts';
import { formatClock } from '../show/event.ts';
import { findMissingTools, renderMissingTools } from '../show/missing-tools.ts';
import { replaceControls } from '../show/plain.ts';
import { renderProblem } from '../show/problem.ts';
import { renderFields, renderTable } from '../show/table.ts';

const readFile = (path: string) => ({
  name: path === '-' ? 'stdin.cedar' : basename(path),
  text: readInput(path),
});

export async function check({ args, out, runtime }: Session): Promise<number> {
  const file = readFile(args.positionals[0]!);
  if (!/\.(cedar|ya?ml)$/.test(file.name))
    throw fault('bad_usage', `${file.name} is neither a .cedar nor a .yaml file`, {
      hint: 'Name rule files like 10-prod.cedar and manifests like coder.yaml.',
    });
  const answer = await runtime().call('agentd', 'checkPolicy', { body: { files: [file] } });
  const { problems, warnings, files } = answer.check;
  out.print(answer, () => [
    ...problems.flatMap((problem) => renderProblem(problem, out.paint)),
    ...warnings.flatMap((warning) => renderProblem(warning, out.paint, 'warning')),
    problems.length > 0
      ? `${file.name} is invalid: ${pluralize(problems.length, 'problem')}`
      : `${file.name} is valid${files[0]?.kind === 'policy' ? `: ${pluralize(files[0].rules, 'rule')}` : ''}`,
  ]);
  return problems.length > 0 ? FAULTS.bad_config.exit : 0;
}

export const DECISION_STYLES: Readonly<Record<string, Style>> = {
  permit: 'green',
  ask: 'yellow',
  forbid: 'red',
  allow: 'green',
  deny: 'red',
};
const formatDecision = (word: string) => ({ text: word, style: DECISION_STYLES[word]! });

export async function show({ args, out, runtime }: Session): Promise<void> {
  const params = { name: args.positionals[0]! };
  const parts = makePartialResult();
  const [view, declared, listed] = await Promise.all([
    runtime().call('agentd', 'showPolicy', { params }),
    parts.collect('manifest', runtime().call('agentd', 'getAgent', { params })),
    parts.collect('tools', runtime().call('toold', 'listTools', {})),
  ]);
  const missing =
    declared === undefined || listed === undefined
      ? []
      : findMissingTools(declared.manifest, listed.tools);
  out.print({ policy: { ...view, without_tool: missing } }, () =>
    args.flag('rules')
      ? renderRuleTexts(view)
      : [
          ...renderRules(view, out),
          '',
          ...renderBox(view, missing, out),
          ...renderMissing(parts.missing, out.paint),
        ],
  );
}

function renderRuleTexts({ rules }: AgentPolicyView): string[] {
  return rules.flatMap(({ id, from, text }) => [
    `// ${replaceControls(id)} (${replaceControls(from)})`,
    ...text.split('\n').map(replaceControls),
    '',
  ]);
}

const RULE_HEADERS = [
  { title: 'EFFECT' },
  { title: 'RULE' },
  { title: 'FROM', minWidth: 12 },
  { title: 'WHY', minWidth: 10 },
] as const;

function renderRules({ rules }: AgentPolicyView, out: Out): string[] {
  const rows = rules.map(({ id, effect, from, why }) => [
    formatDecision(effect),
    id,
    from,
    why ?? '',
  ]);
  return renderTable(RULE_HEADERS, rows, out);
}

function renderBox(
  { agent, version, groups, box }: AgentPolicyView,
  missing: readonly string[],
  out: Out,
): string[] {
  const hosts = box.network.allow.map(({ host, port }) => `${host}:${port}`);
  return renderFields(
    [
      ['agent', agent],
      ['policy', `version ${version}`],
      ['groups', groups.join(', ')],
      ['grants nothing', renderMissingTools(missing)],
      ['box reads', box.read.map(replaceControls).join('\n')],
      ['box writes', box.write.map(replaceControls).join('\n')],
      ['denied', box.deny.map(replaceControls).join('\n')],
      ['network', hosts.length === 0 ? 'none' : hosts.join('\n')],
    ],
    out.paint,
  );
}

export async function simulate({ args, out, runtime }: Session): Promise<void> {
  const since = args.text('since');
  const body = {
    files: [readFile(args.positionals[0]!)],
    ...(since === undefined ? {} : { since: readTime(since, Date.now(), 'ago') }),
  };
  const answer = await runtime().call('agentd', 'simulatePolicy', { body });
  out.print(answer, () => renderSimulation(answer.simulation, out));
}

const CHANGE_HEADERS = [
  { title: 'WHEN' },
  { title: 'AGENT' },
  { title: 'TOOL' },
  { title: 'WAS' },
  { title: 'WOULD BE' },
  { title: 'TODAY' },
  { title: 'BY', minWidth: 12 },
  { title: 'TOUCHES', minWidth: 10 },
  { title: 'EVENT' },
] as const;

function renderSimulation(view: SimulationView, out: Out): string[] {
  const { decisions, unreadable, changes, truncated } = view;
  const rows = changes.map((change) => [
    formatClock(change.ts, Date.now()),
    change.agent,
    change.tool,
    formatDecision(change.recorded.answer),
    formatDecision(change.changed.answer),
    formatDecision(change.today.answer),
    change.changed.rules.join(' ') || change.changed.reason,
    change.touches.join(', '),
    change.event,
  ]);
  return [
    ...(rows.length === 0 ? [] : [...renderTable(CHANGE_HEADERS, rows, out), '']),
    `${pluralize(changes.length, 'decision')} of ${decisions} would change`,
    ...(unreadable > 0 ? [`${pluralize(unreadable, 'decision')} could not be replayed`] : []),
    ...(truncated ? ['More decisions exist; use a later --since'] : []),
  ];
}
