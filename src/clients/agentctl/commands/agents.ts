// agentctl list, pause, resume, stop, run, agent show, agent remove.
import type { AgentView } from '../../../wire/agentd.ts';
import type { AnswerOf } from '../../../wire/route.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import type { Session } from '../command.ts';
import { makeParts, missingLines } from '../missing.ts';
import type { Style } from '../out.ts';
import { dayStart, money, relative, some } from '../show/amounts.ts';
import { plain } from '../show/plain.ts';
import { problemLines } from '../show/problem.ts';
import { renderFields, renderTable } from '../show/table.ts';
import { toYaml } from '../show/yaml.ts';
import { userName } from '../user-name.ts';

type Identity = AnswerOf<typeof sandboxdRoutes.identity>;

const STYLES: Readonly<Record<AgentView['status'], Style>> = {
  active: 'green',
  paused: 'yellow',
  stopped: 'red',
  removed: 'dim',
};

const HEADS = [
  { title: 'NAME' },
  { title: 'USER', least: 8 },
  { title: 'STATUS' },
  { title: 'MODEL', least: 8 },
  { title: 'TASKS', least: 10 },
  { title: 'SPENT TODAY', align: 'right' },
  { title: 'FOR', least: 10 },
] as const;

export async function list({ out, runtime }: Session): Promise<void> {
  const since = dayStart(Date.now());
  const parts = makeParts();
  const [{ agents, problems }, usage, who] = await Promise.all([
    runtime().ask('agentd', 'listAgents', {}),
    parts.ask('spent today', runtime().ask('modeld', 'usage', { query: { since } })),
    parts.ask('users', runtime().ask('sandboxd', 'identity', {})),
  ]);
  const spent = new Map<string, number>();
  for (const row of usage?.rows ?? [])
    spent.set(row.agent, (spent.get(row.agent) ?? 0) + row.cost_microusd);
  const withSpend = agents.map((agent) => ({
    ...agent,
    runs_as: who === undefined ? null : userText(agent, who),
    spent_today_microusd: usage === undefined ? null : (spent.get(agent.name) ?? 0),
  }));
  const { missing } = parts;
  out.print({ agents: withSpend, problems, missing }, () => {
    const broken = problems.flatMap((problem) => problemLines(problem, out.paint));
    if (agents.length === 0) return [...broken, noAgentsText(problems.length)];
    const rows = withSpend.map((agent) => [
      agent.name,
      agent.runs_as ?? '?',
      { text: agent.status, style: STYLES[agent.status] },
      agent.model,
      tasksText(agent.tasks),
      agent.spent_today_microusd === null ? '?' : money(agent.spent_today_microusd),
      agent.description,
    ]);
    return [...renderTable(HEADS, rows, out), ...broken, ...missingLines(missing, out.paint)];
  });
}

/** What to do first where nobody can be given work. */
export const noAgentsText = (problems: number): string =>
  problems === 0
    ? 'There are no agents yet: agentctl agent create --help'
    : 'No agent could be loaded. Correct what is named above: it is taken up as soon as it is saved.';

/** Who its boxes really are on this host: the account it asks for need not be theirs. */
function userText({ name, linux_user }: AgentView, { identity, uid }: Identity): string {
  if (identity === 'users') return linux_user;
  return uid === null ? `agent-${name}` : userName(uid);
}

function tasksText(tasks: AgentView['tasks']): string {
  const parts = Object.entries(tasks).filter(([, n]) => n > 0);
  return parts.length === 0 ? '–' : parts.map(([word, n]) => `${n} ${word}`).join(', ');
}

export async function show({ args, out, runtime }: Session): Promise<void> {
  const params = { name: args.words[0]! };
  const parts = makeParts();
  const [answer, who] = await Promise.all([
    runtime().ask('agentd', 'getAgent', { params }),
    parts.ask('Linux user', runtime().ask('sandboxd', 'identity', {})),
  ]);
  const { agent, manifest } = answer;
  const runs_as = who === undefined ? null : userText(agent, who);
  out.print({ ...answer, agent: { ...agent, runs_as } }, () => [
    ...renderFields(
      [
        ['name', agent.name],
        ['for', plain(agent.description)],
        ['status', out.paint(STYLES[agent.status], agent.status)],
        ['Linux user', whoText(agent, who)],
        ['model', agent.model],
        ['tasks', `${tasksText(agent.tasks)}; ${some(agent.replicas, 'task')} at a time`],
        ['capabilities', agent.capabilities.join(', ') || 'none'],
        ['tools', agent.tools.join(', ') || 'none'],
        ['budget', budgetText(agent.budget)],
        ['changed', relative(agent.updated_at, Date.now())],
        ['manifest', agent.manifest_file ?? 'not in a file'],
        ['sha256', agent.manifest_hash],
      ],
      out.paint,
      out.columns,
    ),
    ...missingLines(parts.missing, out.paint),
    '',
    ...toYaml(manifest).map(plain),
  ]);
}

function whoText(agent: AgentView, who: Identity | undefined): string {
  if (who === undefined) return 'unknown';
  const user = userText(agent, who);
  if (who.identity === 'users') return user;
  const own = `agent-${agent.name}`;
  const asked =
    agent.linux_user === own ? '' : `; ${agent.linux_user} needs sandboxd.identity: users`;
  return who.identity === 'dynamic'
    ? `${user}, a uid of its own without an account${asked}`
    : `${user}, as all agents here: this host gives them no users of their own${asked}`;
}

function budgetText(budget: AgentView['budget']): string {
  const parts = [
    budget.tokens_per_day === null ? undefined : some(budget.tokens_per_day, 'token'),
    budget.cost_microusd_per_day === null ? undefined : money(budget.cost_microusd_per_day),
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? 'none of its own' : `${parts.join(' and ')} a day`;
}

async function change(
  { args, out, runtime }: Session,
  route: 'pauseAgent' | 'resumeAgent' | 'stopAgent' | 'removeAgent',
  done: string,
): Promise<void> {
  const answer = await runtime().ask('agentd', route, { params: { name: args.words[0]! } });
  out.print(answer, () => [`${answer.agent.name} ${done}`]);
}

export const pause = (session: Session) =>
  change(session, 'pauseAgent', 'is paused: it takes no new task.');
export const resume = (session: Session) =>
  change(session, 'resumeAgent', 'is active: it takes tasks.');
export const stop = (session: Session) =>
  change(session, 'stopAgent', 'is stopped, and what it was doing with it.');
export const remove = (session: Session) =>
  change(session, 'removeAgent', 'is removed. What it did stays in the audit log.');

export async function run({ args, out, runtime }: Session): Promise<void> {
  const agent = args.words[0]!;
  const params = { id: args.text('task')! };
  const answer = await runtime().ask('agentd', 'assignTask', { params, body: { agent } });
  out.print(answer, () => [
    `${answer.task.id} is with ${agent} now: ${answer.task.status}`,
    `Follow it: agentctl task watch ${answer.task.id}`,
  ]);
}
