// agentctl policy check, show and simulate.
import { basename } from 'node:path';
import type { AgentPolicyView, SimulationView } from '../../../wire/agentd.ts';
import { FAULTS, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { readInput } from '../input.ts';
import type { Out, Style } from '../out.ts';
import { readTime } from '../read-amounts.ts';
import { some } from '../show/amounts.ts';
import { clock } from '../show/event.ts';
import { plain } from '../show/plain.ts';
import { problemLines } from '../show/problem.ts';
import { renderFields, renderTable } from '../show/table.ts';

const readFile = (path: string) => ({
  name: path === '-' ? 'stdin.cedar' : basename(path),
  text: readInput(path),
});

export async function check({ args, out, runtime }: Session): Promise<number> {
  const file = readFile(args.words[0]!);
  if (!/\.(cedar|ya?ml)$/.test(file.name))
    throw fault('bad_usage', `${file.name} is neither rules nor a manifest by its name`, {
      hint: 'Rules are in files such as 10-prod.cedar, manifests in files such as coder.yaml.',
    });
  const answer = await runtime().ask('agentd', 'checkPolicy', { body: { files: [file] } });
  const { problems, warnings, files } = answer.check;
  out.print(answer, () => [
    ...problems.flatMap((one) => problemLines(one, out.paint)),
    ...warnings.flatMap((one) => problemLines(one, out.paint, 'warning')),
    problems.length > 0
      ? `${file.name} would not be taken: ${some(problems.length, 'problem')}`
      : `${file.name} is good${files[0]?.kind === 'policy' ? `: ${some(files[0].rules, 'rule')}` : ''}`,
  ]);
  return problems.length > 0 ? FAULTS.bad_config.exit : 0;
}

export const ANSWER_STYLES: Readonly<Record<string, Style>> = {
  permit: 'green',
  ask: 'yellow',
  forbid: 'red',
  allow: 'green',
  deny: 'red',
};
const styled = (word: string) => ({ text: word, style: ANSWER_STYLES[word]! });

export async function show({ args, out, runtime }: Session): Promise<void> {
  const params = { name: args.words[0]! };
  const view = await runtime().ask('agentd', 'showPolicy', { params });
  out.print({ policy: view }, () =>
    args.flag('rules') ? ruleTexts(view) : [...ruleTable(view, out), '', ...boxLines(view, out)],
  );
}

function ruleTexts({ rules }: AgentPolicyView): string[] {
  return rules.flatMap(({ id, from, text }) => [
    `// ${plain(id)} (${plain(from)})`,
    ...text.split('\n').map(plain),
    '',
  ]);
}

const RULE_HEADS = [
  { title: 'EFFECT' },
  { title: 'RULE' },
  { title: 'FROM', least: 12 },
  { title: 'WHY', least: 10 },
] as const;

function ruleTable({ rules }: AgentPolicyView, out: Out): string[] {
  const rows = rules.map(({ id, effect, from, why }) => [styled(effect), id, from, why ?? '']);
  return renderTable(RULE_HEADS, rows, out);
}

function boxLines({ agent, version, groups, box }: AgentPolicyView, out: Out): string[] {
  const hosts = box.network.allow.map(({ host, port }) => `${host}:${port}`);
  return renderFields(
    [
      ['agent', agent],
      ['policy', `version ${version}`],
      ['groups', groups.join(', ')],
      ['box reads', box.read.map(plain).join('\n')],
      ['box writes', box.write.map(plain).join('\n')],
      ['closed', box.deny.map(plain).join('\n')],
      ['network', hosts.length === 0 ? 'none' : hosts.join('\n')],
    ],
    out.paint,
  );
}

export async function simulate({ args, out, runtime }: Session): Promise<void> {
  const since = args.text('since');
  const body = {
    files: [readFile(args.words[0]!)],
    ...(since === undefined ? {} : { since: readTime(since, Date.now(), 'ago') }),
  };
  const answer = await runtime().ask('agentd', 'simulatePolicy', { body });
  out.print(answer, () => simulationLines(answer.simulation, out));
}

const CHANGE_HEADS = [
  { title: 'WHEN' },
  { title: 'AGENT' },
  { title: 'TOOL' },
  { title: 'WAS' },
  { title: 'WOULD BE' },
  { title: 'TODAY' },
  { title: 'BY', least: 12 },
  { title: 'TOUCHES', least: 10 },
  { title: 'EVENT' },
] as const;

function simulationLines(view: SimulationView, out: Out): string[] {
  const { decisions, unreadable, changes, truncated } = view;
  const rows = changes.map((one) => [
    clock(one.ts, Date.now()),
    one.agent,
    one.tool,
    styled(one.recorded.answer),
    styled(one.changed.answer),
    styled(one.today.answer),
    one.changed.rules.join(' ') || one.changed.reason,
    one.touches.join(', '),
    one.event,
  ]);
  return [
    ...(rows.length === 0 ? [] : [...renderTable(CHANGE_HEADS, rows, out), '']),
    `${some(changes.length, 'decision')} of ${decisions} would be another`,
    ...(unreadable > 0 ? [`${some(unreadable, 'decision')} could not be asked again`] : []),
    ...(truncated ? ['There are more; name a later time with --since'] : []),
  ];
}
