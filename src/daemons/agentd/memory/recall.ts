// Asks memoryd what a run's scopes know about its goal, for its briefing. A run never waits for
// memory longer than configured, and starts without it then.
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { type BriefedMemories, RECALL_QUERY_CHARS_MAX } from '../../../wire/memoryd/for-agentd.ts';
import type { memorydRoutes } from '../../../wire/memoryd.ts';
import type { Label, RunId, TaskId } from '../../../wire/primitives.ts';
import type { AgentdConfig } from '../config.ts';
import type { DeclaredAgent } from '../manifests/read-manifest.ts';
import type { TaskLimits } from '../rules.ts';
import type { RunRow, TaskRow } from '../store/rows.ts';
import type { AgentdStore } from '../store/store.ts';

export type RecallMemories = (run: RunRow, task: TaskRow) => Promise<BriefedMemories>;

export type RecallDeps = {
  store: Pick<AgentdStore, 'agent' | 'taskRow'>;
  memoryd: Pick<Client<typeof memorydRoutes>, 'recallForBriefing'>;
  config: AgentdConfig['memory'];
  limitsFor: (task: TaskRow) => Promise<TaskLimits>;
  log: Log;
};

/** The share of the tokens that a task may use in all. */
const TOKENS_SHARE = 0.1;

export function makeRecallMemories(deps: RecallDeps): RecallMemories {
  const { store, memoryd, config, log } = deps;

  const ask = async (run: RunRow, task: TaskRow, signal: AbortSignal): Promise<BriefedMemories> => {
    const [{ spec }, root, limits] = await Promise.all([
      store.agent(run.agent),
      store.taskRow(task.root_task_id),
      deps.limitsFor(task),
    ]);
    if (spec.manifest.spec.memory?.briefing === false) return { recall: 'off', found: [] };
    const owner = root.owner ?? null;
    const tokensMax = Math.floor((limits.max_tokens ?? Number.MAX_VALUE) * TOKENS_SHARE);
    const body = {
      ...describeRun(run, task),
      owner,
      scopes: listReadScopes(spec, owner),
      query: task.goal.slice(0, RECALL_QUERY_CHARS_MAX),
      max_tokens: Math.min(config.briefing_tokens_max, tokensMax),
    };
    const { memories } = await memoryd.recallForBriefing({ body }, { signal });
    return { recall: 'done', found: memories };
  };

  return async (run, task) => {
    if (!config.briefing) return { recall: 'off', found: [] };
    const silence = Promise.withResolvers<BriefedMemories>();
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      silence.resolve({ recall: 'silent', found: [] });
      aborter.abort();
    }, config.wait_ms);
    const asked = ask(run, task, aborter.signal).catch((error: unknown): BriefedMemories => {
      log.debug('memoryd did not say what a run should know', { run: run.id, error });
      return { recall: 'silent', found: [] };
    });
    try {
      return await Promise.race([asked, silence.promise]);
    } finally {
      clearTimeout(timer);
    }
  };
}

export const describeRun = (run: RunRow, task: TaskRow) => ({
  agent: run.agent,
  run_id: run.id as RunId,
  task_id: task.id as TaskId,
  root_task_id: task.root_task_id as TaskId,
  labels: JSON.parse(task.labels) as Label[],
});

/** Those of its manifest. memoryd decides by policy which of them it may read. */
function listReadScopes({ name, manifest }: DeclaredAgent, owner: string | null): string[] {
  const { read = [], write = [] } = manifest.spec.memory ?? {};
  const own = [`agent:${name}`, ...(owner === null ? [] : [`person:${owner}`])];
  return [...new Set([...own, ...read, ...write])];
}
