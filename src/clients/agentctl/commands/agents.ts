// agentctl list, pause, resume, stop, run, task assign, agent show, agent remove.
import type { AgentView } from '../../../wire/agentd.ts';
import type { RouteResponse } from '../../../wire/route.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import type { ToolView } from '../../../wire/toold.ts';
import type { Session } from '../command.ts';
import { makePartialResult, renderMissing } from '../missing.ts';
import type { Style } from '../out.ts';
import { formatMoney, formatRelative, formatSize, pluralize, startOfDay } from '../show/amounts.ts';
import { findMissingTools, renderMissingTools } from '../show/missing-tools.ts';
import { replaceControls } from '../show/plain.ts';
import { renderProblem } from '../show/problem.ts';
import { renderFields, renderTable } from '../show/table.ts';
import { toYaml } from '../show/yaml.ts';
import { formatUser } from '../user-name.ts';

type Identity = RouteResponse<typeof sandboxdRoutes.identity>;

const STYLES: Readonly<Record<AgentView['status'], Style>> = {
  active: 'green',
  paused: 'yellow',
  stopped: 'red',
  removed: 'dim',
};

const HEADERS = [
  { title: 'NAME' },
  { title: 'USER', minWidth: 8 },
  { title: 'STATUS' },
  { title: 'MODEL', minWidth: 8 },
  { title: 'TASKS', minWidth: 10 },
  { title: 'SPENT TODAY', align: 'right' },
  { title: 'FOR', minWidth: 10 },
] as const;

export async function list({ out, runtime }: Session): Promise<void> {
  const since = startOfDay(Date.now());
  const parts = makePartialResult();
  const [{ agents, problems }, usage, who] = await Promise.all([
    runtime().call('agentd', 'listAgents', {}),
    parts.collect('spent today', runtime().call('modeld', 'usage', { query: { since } })),
    parts.collect('users', runtime().call('sandboxd', 'identity', {})),
  ]);
  const spent = new Map<string, number>();
  for (const row of usage?.rows ?? [])
    spent.set(row.agent, (spent.get(row.agent) ?? 0) + row.cost_microusd);
  const withSpend = agents.map((agent) => ({
    ...agent,
    runs_as: who === undefined ? null : formatBoxUser(agent, who),
    spent_today_microusd: usage === undefined ? null : (spent.get(agent.name) ?? 0),
  }));
  const { missing } = parts;
  out.print({ agents: withSpend, problems, missing }, () => {
    const broken = problems.flatMap((problem) => renderProblem(problem, out.paint));
    if (agents.length === 0) return [...broken, describeNoAgents(problems.length)];
    const rows = withSpend.map((agent) => [
      agent.name,
      agent.runs_as ?? '?',
      { text: agent.status, style: STYLES[agent.status] },
      agent.model,
      formatTasks(agent.tasks),
      agent.spent_today_microusd === null ? '?' : formatMoney(agent.spent_today_microusd),
      agent.description,
    ]);
    return [...renderTable(HEADERS, rows, out), ...broken, ...renderMissing(missing, out.paint)];
  });
}

export const describeNoAgents = (problems: number): string =>
  problems === 0
    ? 'No agents yet: agentctl agent create --help'
    : 'No agent could be loaded. Fix the problems above; saved files are reloaded automatically.';

/** The user its boxes run as on this host, which may differ from the manifest's. */
function formatBoxUser({ name, linux_user }: AgentView, { identity, uid }: Identity): string {
  if (identity === 'users') return linux_user;
  return uid === null ? `agent-${name}` : formatUser(uid);
}

function formatTasks(tasks: AgentView['tasks']): string {
  const parts = Object.entries(tasks).filter(([, n]) => n > 0);
  return parts.length === 0 ? '–' : parts.map(([word, n]) => `${n} ${word}`).join(', ');
}

export async function show({ args, out, runtime }: Session): Promise<void> {
  const params = { name: args.positionals[0]! };
  const parts = makePartialResult();
  const [answer, who, listed] = await Promise.all([
    runtime().call('agentd', 'getAgent', { params }),
    parts.collect('Linux user', runtime().call('sandboxd', 'identity', {})),
    parts.collect('tools', runtime().call('toold', 'listTools', {})),
  ]);
  const { agent, manifest } = answer;
  const missing = listed === undefined ? [] : findMissingTools(manifest, listed.tools);
  const isThere = (word: string): boolean => !missing.includes(word);
  const runs_as = who === undefined ? null : formatBoxUser(agent, who);
  out.print({ ...answer, agent: { ...agent, runs_as, without_tool: missing } }, () => [
    ...renderFields(
      [
        ['name', agent.name],
        ['for', replaceControls(agent.description)],
        ['role', agent.persona === null ? '' : agent.summary],
        ['status', out.paint(STYLES[agent.status], agent.status)],
        ['Linux user', describeUser(agent, who)],
        ['model', agent.model],
        ['tasks', `${formatTasks(agent.tasks)}; ${pluralize(agent.replicas, 'task')} at a time`],
        ['capabilities', agent.capabilities.filter(isThere).join(', ') || 'none'],
        ['', renderMissingTools(missing)],
        ['tools', listExisting(agent.tools, listed?.tools).join(', ') || 'none'],
        ['budget', formatBudget(agent.budget)],
        ['home', agent.home_id === null ? '' : `kept from task to task (${agent.home_id})`],
        ['changed', formatRelative(agent.updated_at, Date.now())],
        ['manifest', agent.manifest_file ?? 'not in a file'],
        ['sha256', agent.manifest_hash],
      ],
      out.paint,
      out.columns,
    ),
    ...renderMissing(parts.missing, out.paint),
    '',
    ...toYaml(manifest).map(replaceControls),
  ]);
}

/** Without those that a capability will bring when they exist. */
function listExisting(names: readonly string[], known: readonly ToolView[] | undefined): string[] {
  const existing = known && new Set(known.map(({ name }) => name));
  return names.filter((name) => existing?.has(name) ?? true);
}

function describeUser(agent: AgentView, who: Identity | undefined): string {
  if (who === undefined) return 'unknown';
  const user = formatBoxUser(agent, who);
  if (who.identity === 'users') return user;
  const own = `agent-${agent.name}`;
  const configured =
    agent.linux_user === own ? '' : `; ${agent.linux_user} needs sandboxd.identity: users`;
  return who.identity === 'dynamic'
    ? `${user}, its own uid without an account${configured}`
    : `${user}, shared by all agents: this host has no separate users for them${configured}`;
}

function formatBudget(budget: AgentView['budget']): string {
  const parts = [
    budget.tokens_per_day === null ? undefined : pluralize(budget.tokens_per_day, 'token'),
    budget.cost_microusd_per_day === null ? undefined : formatMoney(budget.cost_microusd_per_day),
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? 'none' : `${parts.join(' and ')} a day`;
}

async function changeStatus(
  { args, out, runtime }: Session,
  route: 'pauseAgent' | 'resumeAgent' | 'stopAgent',
  done: string,
): Promise<void> {
  const answer = await runtime().call('agentd', route, { params: { name: args.positionals[0]! } });
  out.print(answer, () => [`${answer.agent.name} ${done}`]);
}

export const pause = (session: Session) =>
  changeStatus(session, 'pauseAgent', 'is paused: it gets no new tasks.');
export const resume = (session: Session) =>
  changeStatus(session, 'resumeAgent', 'is active: it gets tasks again.');
export const stop = (session: Session) =>
  changeStatus(session, 'stopAgent', 'is stopped, with its running tasks.');

/** Counting and deleting many files takes time. */
const REMOVE_DEADLINE_MS = 120_000;

export async function remove({ args, out, runtime }: Session): Promise<void> {
  const client = runtime();
  const params = { name: args.positionals[0]! };
  const { agent } = await client.call('agentd', 'removeAgent', { params });
  const id = args.flag('keep-home') ? null : agent.home_id;
  const removing =
    id === null
      ? undefined
      : client.call(
          'sandboxd',
          'removeHome',
          { params: { id } },
          { deadlineMs: REMOVE_DEADLINE_MS },
        );
  const parts = makePartialResult();
  const home = removing && (await parts.collect('home', removing));
  out.print({ agent, home: home ?? null, missing: parts.missing }, () => [
    `${agent.name} is removed. Its history stays in the audit log.`,
    ...(home?.removed === true ? [`Its home is deleted: ${formatSize(home.bytes)}.`] : []),
    ...(agent.home_id !== null && id === null
      ? ['Its home is kept for an agent of this name.']
      : []),
    ...renderMissing(parts.missing, out.paint),
    ...(parts.missing.length === 0 ? [] : [`Again: agentctl agent remove ${agent.name}`]),
  ]);
}

export const run = (session: Session) =>
  assignTask(session, session.args.text('task')!, session.args.positionals[0]!);
export const assign = (session: Session) =>
  assignTask(session, session.args.positionals[0]!, session.args.positionals[1]!);

async function assignTask({ out, runtime }: Session, id: string, agent: string): Promise<void> {
  const params = { id };
  const answer = await runtime().call('agentd', 'assignTask', { params, body: { agent } });
  out.print(answer, () => [
    `${answer.task.id} assigned to ${agent}: ${answer.task.status}`,
    `Follow it: agentctl task watch ${answer.task.id}`,
  ]);
}
