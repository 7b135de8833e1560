// agentctl tool list, show, suspend and resume.

import type { ToolView } from '../../../wire/toold.ts';
import { checkId } from '../check-ids.ts';
import type { Session } from '../command.ts';
import type { Style } from '../out.ts';
import { replaceControls } from '../show/plain.ts';
import { renderProblem } from '../show/problem.ts';
import { type Cell, renderFields, renderTable } from '../show/table.ts';
import { toYaml } from '../show/yaml.ts';
import { findTool } from './catalog.ts';

const RISKS: Readonly<Record<ToolView['risk'], Style>> = {
  low: 'green',
  medium: 'yellow',
  high: 'red',
};

const HEADERS = [
  { title: 'NAME' },
  { title: 'RISK' },
  { title: 'EFFECT' },
  { title: 'GRANTED BY', minWidth: 10 },
  { title: 'DESCRIPTION', minWidth: 10 },
] as const;

export async function list({ out, runtime }: Session): Promise<void> {
  const answer = await runtime().call('toold', 'listTools', {});
  out.print(answer, () => {
    const rows = answer.tools.map((tool) => [
      formatName(tool),
      { text: tool.risk, style: RISKS[tool.risk] },
      tool.reversibility,
      tool.capabilities.join(', '),
      tool.description,
    ]);
    const broken = (answer.problems ?? []).flatMap((problem) => renderProblem(problem, out.paint));
    return [...renderTable(HEADERS, rows, out), ...broken];
  });
}

function formatName({ name, suspended, suspended_in = [] }: ToolView): Cell {
  if (suspended !== undefined) return { text: `${name} (suspended)`, style: 'red' };
  const { length } = suspended_in;
  if (length === 0) return name;
  const where = length === 1 ? 'a task' : `${length} tasks`;
  return { text: `${name} (suspended in ${where})`, style: 'yellow' };
}

export async function show(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const name = args.positionals[0]!;
  if (name.startsWith('call_')) {
    checkId(name, 'call');
    return showCall(session, name);
  }
  const tool = await findTool(runtime(), name);
  out.print({ tool }, () => [
    ...renderFields(
      [
        ['name', tool.name],
        ['does', replaceControls(tool.description)],
        ['risk', out.paint(RISKS[tool.risk], tool.risk)],
        ['effect', `${tool.reversibility}, ${tool.idempotent ? '' : 'not '}safe to repeat`],
        ['sandbox', tool.level],
        ['granted by', tool.capabilities.join(', ')],
        ['suspended', tool.suspended && out.paint('red', formatSuspension(tool.suspended))],
        ...(tool.suspended_in ?? []).map(({ task_id, since, reason }): [string, string] => [
          'suspended in',
          out.paint(
            'yellow',
            `${task_id} and its subtasks since ${since}: ${replaceControls(reason)}`,
          ),
        ]),
      ],
      out.paint,
    ),
    '',
    ...toYaml({ input: tool.input_schema, output: tool.output_schema }).map(replaceControls),
  ]);
}

const formatSuspension = ({ since, by, reason }: NonNullable<ToolView['suspended']>): string =>
  `since ${since} by ${by}: ${replaceControls(reason)}`;

export async function suspend({ args, out, runtime }: Session): Promise<void> {
  const [name, reason] = [args.positionals[0]!, args.text('reason') ?? 'suspended by a person'];
  const params = { name };
  const answer = await runtime().call('toold', 'suspendTool', { params, body: { reason } });
  out.print(answer, () => [`${name} is suspended. To resume it: agentctl tool resume ${name}`]);
}

export async function resume({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!;
  const answer = await runtime().call('toold', 'resumeTool', { params: { name } });
  out.print(answer, () => [`${name} is available again.`]);
}

async function showCall({ out, runtime }: Session, id: string): Promise<void> {
  const { call } = await runtime().call('toold', 'getCall', { params: { id } });
  out.print({ call }, () => [
    ...renderFields(
      [
        ['call', call.call_id],
        ['tool', call.tool],
        ['agent', call.agent],
        ['task', call.task_id],
        ['run', `${call.run_id}, activation ${call.fence}`],
        ['purpose', replaceControls(call.purpose) || undefined],
        ['status', call.status],
        ['attempts', String(call.attempts)],
        ['created', call.created_at],
        ['ended', call.ended_at ?? undefined],
      ],
      out.paint,
    ),
    '',
    ...toYaml({
      arguments: call.arguments,
      ...(call.result === null ? {} : { result: call.result }),
      ...(call.error === null ? {} : { error: call.error }),
    }).map(replaceControls),
  ]);
}
