// agentctl status: a summary on one screen. It loads as little as possible, because people and
// scripts run it often.
import { readDiskSpace } from '../../../platform/free-bytes.ts';
import type { StatusView } from '../../../wire/agentd.ts';
import { DAEMONS, type DaemonName } from '../../../wire/daemons.ts';
import type { RouteResponse } from '../../../wire/route.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import type { Session } from '../command.ts';
import { type Missing, makePartialResult, renderMissing } from '../missing.ts';
import type { Out } from '../out.ts';
import {
  formatCount,
  formatMoney,
  formatRelative,
  pluralize,
  startOfDay,
} from '../show/amounts.ts';
import { type DiskSpace, describeDisk } from '../show/disk.ts';
import { describeIdRanges } from '../show/id-ranges.ts';
import { replaceControls } from '../show/plain.ts';
import { renderProblem } from '../show/problem.ts';
import { renderFields } from '../show/table.ts';
import { outdatedFault } from '../state.ts';
import {
  deadSupervisorFault,
  describeRestarts,
  readSupervisor,
  type Supervisor,
} from '../supervisor.ts';
import { describeModels, isOnlyRehearsal, type Models } from './catalog.ts';

const HEALTH_TIMEOUT_MS = 3_000;

type Facts = {
  status: StatusView;
  toolProblems: number;
  /** null: the daemon does not respond. */
  daemons: Record<DaemonName, string | null>;
  pid: number;
  port: number | null;
  models: Models | null;
  approvals: number | null;
  ids: RouteResponse<typeof sandboxdRoutes.identity> | null;
  spent: { cost_microusd: number; tokens: number } | null;
  supervisor: Supervisor | null;
  disk: DiskSpace | null;
  missing: readonly Missing[];
};

export async function status({ out, runtime }: Session): Promise<void> {
  const facts = await gather(runtime());
  const { status: view, ...more } = facts;
  const document = {
    ...view,
    daemons: more.daemons,
    pid: more.pid,
    port: more.port,
    rehearsal: more.models === null ? null : isOnlyRehearsal(more.models),
    questions_open: view.waits_open,
    approvals_pending: more.approvals,
    id_ranges: more.ids?.ranges ?? null,
    spent_today: more.spent,
    supervisor: toSupervisorView(more.supervisor),
    disk: more.disk,
    missing: more.missing,
  };
  out.print({ status: document }, () => renderStatus(facts, out, Date.now()));
}

async function gather(runtime: ReturnType<Session['runtime']>): Promise<Facts> {
  const since = startOfDay(Date.now());
  const pending = { query: { status: 'pending', limit: 1 } } as const;
  const parts = makePartialResult();
  const readHealth = async (daemon: DaemonName): Promise<[DaemonName, string | null]> => {
    const health = runtime.call(daemon, 'health', {}, { deadlineMs: HEALTH_TIMEOUT_MS });
    return [daemon, (await parts.collect(`${daemon} health`, health))?.status ?? null];
  };
  const [view, usage, models, approvals, rules, tools, identity, healths] = await Promise.all([
    runtime.call('agentd', 'status', {}),
    parts.collect('spent today', runtime.call('modeld', 'usage', { query: { since } })),
    parts.collect('model', runtime.call('modeld', 'listModels', {})),
    parts.collect('approvals', runtime.call('approvald', 'listApprovals', pending)),
    parts.collect('rule problems', runtime.call('agentd', 'getPolicy', {})),
    parts.collect('tool problems', runtime.call('toold', 'listTools', {})),
    parts.collect('ids', runtime.call('sandboxd', 'identity', {})),
    Promise.all(DAEMONS.map(readHealth)),
  ]);
  const { pid, port, outdated = [] } = runtime.info;
  if (outdated.length > 0)
    await parts.collect('runtime processes', Promise.reject(outdatedFault(outdated)));
  const supervisor = readSupervisor(runtime.stateDir) ?? null;
  if (supervisor?.isAlive === false)
    await parts.collect('restarts after a crash', Promise.reject(deadSupervisorFault(supervisor)));
  const toolProblems = tools?.problems ?? [];
  const problems = [...view.problems, ...(rules?.policy.problems ?? []), ...toolProblems];
  return {
    status: { ...view, problems },
    toolProblems: toolProblems.length,
    daemons: Object.fromEntries(healths) as Facts['daemons'],
    pid,
    port,
    models: models ?? null,
    supervisor,
    disk: readDisk(runtime.stateDir),
    missing: parts.missing,
    approvals: approvals?.pending ?? null,
    ids: identity ?? null,
    spent: usage === undefined ? null : sumSpend(usage.total),
  };
}

function toSupervisorView(supervisor: Supervisor | null) {
  if (supervisor === null) return null;
  const { isAlive, pid, restarts, last } = supervisor;
  return { pid: isAlive ? pid : null, restarts, last };
}

function sumSpend(total: { usage: Record<string, number>; cost_microusd: number }) {
  const { input_tokens = 0, output_tokens = 0 } = total.usage;
  const { cache_read_tokens = 0, cache_write_tokens = 0 } = total.usage;
  const tokens = input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
  return { cost_microusd: total.cost_microusd, tokens };
}

function renderStatus(facts: Facts, { paint, columns }: Out, nowMs: number): string[] {
  const { status: view, spent } = facts;
  const port = facts.port === null ? '' : `, port ${facts.port}`;
  const since = formatRelative(view.started_at, nowMs);
  const state = view.halted
    ? paint('red', `halted${view.halt_reason ? ` (${replaceControls(view.halt_reason)})` : ''}`)
    : paint('green', 'running');
  const rows: [string, string | undefined][] = [
    ['runtime', `${state}, ${view.mode}, pid ${facts.pid}${port}, started ${since}`],
    ['restarts', facts.supervisor === null ? undefined : describeRestarts(facts.supervisor)],
    ['daemons', formatDaemons(facts.daemons)],
    ['state', view.state_dir],
    ['version', view.version],
    ['model', facts.models === null ? 'unknown' : describeModels(facts.models)],
    ['agents', formatCounts(view.agents) || 'none'],
    ['tasks', formatCounts(view.tasks) || 'none yet'],
    ['runs', formatCounts(view.runs) || 'none'],
    ['queue', formatQueue(view.queue)],
    ['questions', formatQuestions(view.waits_open)],
    ['approvals', formatApprovals(facts.approvals)],
    ['tools', formatTools(facts.toolProblems)],
    ['ids', formatIds(facts.ids, paint)],
    ['disk', formatDisk(facts.disk, paint)],
    ['spent today', formatSpend(spent)],
  ];
  const problems = view.problems.flatMap((problem) => renderProblem(problem, paint));
  return [
    ...renderFields(rows, paint, columns),
    ...problems,
    ...renderMissing(facts.missing, paint),
  ];
}

function formatDaemons(daemons: Facts['daemons']): string {
  const all = Object.entries(daemons);
  const bad = all.filter(([, health]) => health !== 'ok');
  if (bad.length === 0) return `${formatCount(all.length)} running`;
  const why = bad.map(([daemon, health]) => `${daemon} ${health ?? 'does not respond'}`).join(', ');
  return `${formatCount(all.length - bad.length)} of ${formatCount(all.length)} running; ${why}`;
}

function formatCounts(counts: Readonly<Record<string, number>>): string {
  const some = Object.entries(counts).filter(([, n]) => n > 0);
  return some.map(([word, n]) => `${formatCount(n)} ${word}`).join(', ');
}

const BUSY_AGENTS_MAX = 3;

/** Undefined when no task waits, or the runtime is of a version that does not report it. */
function formatQueue(queue: StatusView['queue'] | undefined): string | undefined {
  if (queue === undefined) return undefined;
  const { for_agents: busy, for_machine: runs, runs_live_max: max } = queue;
  const waiting = busy.slice(0, BUSY_AGENTS_MAX).map(({ agent, runs, replicas }) => {
    const tasks = pluralize(runs, 'task waits', 'tasks wait');
    return `${tasks} for ${agent} (replicas: ${formatCount(replicas)}, all busy)`;
  });
  const others = busy.slice(BUSY_AGENTS_MAX);
  if (others.length > 0) {
    const more = others.reduce((sum, { runs }) => sum + runs, 0);
    waiting.push(`${formatCount(more)} for ${pluralize(others.length, 'other agent')}`);
  }
  if (runs > 0) {
    const tasks = pluralize(runs, 'task waits', 'tasks wait');
    waiting.push(`${tasks} for the machine (agentd.runs_live_max: ${formatCount(max)})`);
  }
  return waiting.length === 0 ? undefined : waiting.join('; ');
}

function formatQuestions(questions: number): string {
  return questions === 0
    ? 'none'
    : `${pluralize(questions, 'question')} open; see: agentctl questions`;
}

function formatApprovals(pending: number | null): string {
  if (pending === null) return 'unknown';
  return pending === 0
    ? 'none'
    : `${pluralize(pending, 'approval')} pending; see: agentctl approvals`;
}

function formatTools(problems: number): string | undefined {
  if (problems === 0) return undefined;
  return `${pluralize(problems, 'problem')} in declared tools; see: agentctl tool list`;
}

/** Undefined unless a range is nearly spent. */
function formatIds(ids: Facts['ids'], paint: Out['paint']): string | undefined {
  const described = ids === null ? undefined : describeIdRanges(ids);
  if (described?.fix === undefined) return undefined;
  return paint('red', `${described.text}; ${described.fix} in agentd.yaml`);
}

/** Undefined unless the disk is nearly full. */
function formatDisk(disk: Facts['disk'], paint: Out['paint']): string | undefined {
  const described = disk === null ? undefined : describeDisk(disk);
  if (described?.fix === undefined) return undefined;
  return paint('red', `${described.text}; ${described.fix}`);
}

/** Null where the state directory cannot be reached. */
function readDisk(stateDir: string): DiskSpace | null {
  try {
    return readDiskSpace(stateDir);
  } catch {
    return null;
  }
}

function formatSpend(spent: Facts['spent']): string {
  if (spent === null) return 'unknown';
  return `${formatMoney(spent.cost_microusd)}, ${pluralize(spent.tokens, 'token')}`;
}
