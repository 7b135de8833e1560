// agentctl status: one screen of what runs. It loads next to nothing, because people and scripts
// ask often.
import type { StatusView } from '../../../wire/agentd.ts';
import { DAEMONS, type DaemonName } from '../../../wire/daemons.ts';
import type { Session } from '../command.ts';
import { type Missing, makeParts, missingLines } from '../missing.ts';
import type { Out } from '../out.ts';
import { count, dayStart, money, relative, some } from '../show/amounts.ts';
import { plain } from '../show/plain.ts';
import { problemLines } from '../show/problem.ts';
import { renderFields } from '../show/table.ts';
import { outdatedFault } from '../state.ts';
import { isOnlyRehearsal, type Models, modelsText } from './catalog.ts';

const HEALTH_TIMEOUT_MS = 3_000;

type Facts = {
  status: StatusView;
  /** How many of the problems are of declared tools. */
  toolProblems: number;
  /** What each daemon says of its health; null when it does not answer. */
  daemons: Record<DaemonName, string | null>;
  pid: number;
  port: number | null;
  /** As modeld says now; null when it does not answer. */
  models: Models | null;
  /** How many wait for a person; null when approvald does not answer. */
  approvals: number | null;
  spent: { cost_microusd: number; tokens: number } | null;
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
    spent_today: more.spent,
    missing: more.missing,
  };
  out.print({ status: document }, () => lines(facts, out, Date.now()));
}

async function gather(runtime: ReturnType<Session['runtime']>): Promise<Facts> {
  const since = dayStart(Date.now());
  const pending = { query: { status: 'pending', limit: 1 } } as const;
  const parts = makeParts();
  const healthOf = async (daemon: DaemonName): Promise<[DaemonName, string | null]> => {
    const asked = runtime.ask(daemon, 'health', {}, { deadlineMs: HEALTH_TIMEOUT_MS });
    return [daemon, (await parts.ask(`health of ${daemon}`, asked))?.status ?? null];
  };
  const [view, usage, models, approvals, rules, tools, healths] = await Promise.all([
    runtime.ask('agentd', 'status', {}),
    parts.ask('spent today', runtime.ask('modeld', 'usage', { query: { since } })),
    parts.ask('model', runtime.ask('modeld', 'listModels', {})),
    parts.ask('approvals', runtime.ask('approvald', 'listApprovals', pending)),
    parts.ask('problems of rules', runtime.ask('agentd', 'getPolicy', {})),
    parts.ask('problems of tools', runtime.ask('toold', 'listTools', {})),
    Promise.all(DAEMONS.map(healthOf)),
  ]);
  const { pid, port, outdated = [] } = runtime.info;
  if (outdated.length > 0)
    await parts.ask('processes of the runtime', Promise.reject(outdatedFault(outdated)));
  const ofTools = tools?.problems ?? [];
  // Files of rules and of tools that are not taken are as wrong as manifests that are not.
  const problems = [...view.problems, ...(rules?.policy.problems ?? []), ...ofTools];
  return {
    status: { ...view, problems },
    toolProblems: ofTools.length,
    daemons: Object.fromEntries(healths) as Facts['daemons'],
    pid,
    port,
    models: models ?? null,
    missing: parts.missing,
    approvals: approvals?.pending ?? null,
    spent: usage === undefined ? null : spentOf(usage.total),
  };
}

function spentOf(total: { usage: Record<string, number>; cost_microusd: number }) {
  const { input_tokens = 0, output_tokens = 0 } = total.usage;
  const { cache_read_tokens = 0, cache_write_tokens = 0 } = total.usage;
  const tokens = input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
  return { cost_microusd: total.cost_microusd, tokens };
}

function lines(facts: Facts, { paint, columns }: Out, nowMs: number): string[] {
  const { status: view, spent } = facts;
  const port = facts.port === null ? '' : `, port ${facts.port}`;
  const since = relative(view.started_at, nowMs);
  const state = view.halted
    ? paint('red', `halted${view.halt_reason ? ` (${plain(view.halt_reason)})` : ''}`)
    : paint('green', 'running');
  const rows: [string, string | undefined][] = [
    ['runtime', `${state}, ${view.mode}, pid ${facts.pid}${port}, started ${since}`],
    ['daemons', daemonsText(facts.daemons)],
    ['state', view.state_dir],
    ['version', view.version],
    ['model', facts.models === null ? 'unknown' : modelsText(facts.models)],
    ['agents', countsText(view.agents) || 'none'],
    ['tasks', countsText(view.tasks) || 'none yet'],
    ['runs', countsText(view.runs) || 'none'],
    ['questions', questionsText(view.waits_open)],
    ['approvals', approvalsText(facts.approvals)],
    ['tools', toolsText(facts.toolProblems)],
    ['spent today', spentText(spent)],
  ];
  const problems = view.problems.flatMap((problem) => problemLines(problem, paint));
  return [
    ...renderFields(rows, paint, columns),
    ...problems,
    ...missingLines(facts.missing, paint),
  ];
}

function daemonsText(daemons: Facts['daemons']): string {
  const all = Object.entries(daemons);
  const bad = all.filter(([, health]) => health !== 'ok');
  if (bad.length === 0) return `${count(all.length)} running`;
  const why = bad.map(([daemon, health]) => `${daemon} ${health ?? 'does not answer'}`).join(', ');
  return `${count(all.length - bad.length)} of ${count(all.length)} running; ${why}`;
}

function countsText(counts: Readonly<Record<string, number>>): string {
  const some = Object.entries(counts).filter(([, n]) => n > 0);
  return some.map(([word, n]) => `${count(n)} ${word}`).join(', ');
}

function questionsText(questions: number): string {
  return questions === 0 ? 'none' : `${some(questions, 'question')} open; see: agentctl questions`;
}

function approvalsText(pending: number | null): string {
  if (pending === null) return 'unknown';
  return pending === 0
    ? 'none wait'
    : `${some(pending, 'approval waits', 'approvals wait')} for a person; see: agentctl approvals`;
}

/** Tools that are as they should be are no news. */
function toolsText(problems: number): string | undefined {
  if (problems === 0) return undefined;
  return `${some(problems, 'problem')} of declared tools; see: agentctl tool list`;
}

function spentText(spent: Facts['spent']): string {
  if (spent === null) return 'unknown';
  return `${money(spent.cost_microusd)}, ${some(spent.tokens, 'token')}`;
}
