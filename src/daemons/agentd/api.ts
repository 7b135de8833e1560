// Handles agentd's routes: passes each validated request to the component that does the work.
import type { Clock } from '../../platform/clock.ts';
import { toTimestamp } from '../../platform/clock.ts';
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import { hashJson } from '../../platform/json.ts';
import { findKeyOwner } from '../../platform/person-keys.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import type { backupRoutes } from '../../wire/agentd/backups.ts';
import type { changeRoutes } from '../../wire/agentd/changes.ts';
import type { mailRoutes, outgoingMailRoutes } from '../../wire/agentd/mail.ts';
import type { personaRoutes } from '../../wire/agentd/personas.ts';
import type { policyRoutes } from '../../wire/agentd/policy.ts';
import type { presetRoutes } from '../../wire/agentd/presets.ts';
import type { agentdRoutes, SendMessage } from '../../wire/agentd.ts';
import type { RunCaller } from '../../wire/caller.ts';
import type { erasureRoutes } from '../../wire/copies.ts';
import { fault } from '../../wire/errors.ts';
import type { Artifacts } from './artifacts.ts';
import { makeBoardHandlers } from './board-handlers.ts';
import type { CallHandlers } from './calls.ts';
import type { Changes } from './changes/changes.ts';
import type { AgentdConfig } from './config.ts';
import type { Digests } from './digest/handlers.ts';
import type { Halt } from './halt.ts';
import type { LegacyBriefing, LegacyBriefings } from './legacy-briefings.ts';
import type { Agents } from './manifests/agents.ts';
import type { MarkSync } from './mark-sync.ts';
import { assertMessageAllowed, computeMessageLabels, formatText } from './message-rules.ts';
import type { Programs } from './programs.ts';
import type { ProposalHandlers } from './proposals.ts';
import type { Replays } from './replay.ts';
import type { RetentionHandlers } from './retention/open-retention.ts';
import type { AgentdService, Requester } from './service.ts';
import type { SharedArtifactHandlers } from './shared-artifacts.ts';
import { makeSiteHandlers } from './site-handlers.ts';
import type { makeSkillHandlers } from './skills/handlers.ts';
import { toArtifactView, toMessageView, toRunView, toWaitView } from './store/rows.ts';
import type { AgentdStore, RunKey } from './store/store.ts';
import { prunedFault } from './store/tombstones.ts';
import type { TeamHandlers } from './team.ts';

type Routes = typeof agentdRoutes;

export type ApiDeps = {
  store: AgentdStore;
  service: AgentdService;
  agents: Agents;
  artifacts: Artifacts;
  calls: CallHandlers;
  markSync: MarkSync;
  programs: Programs;
  replays: Replays;
  legacyBriefings: LegacyBriefings;
  halt: Halt;
  config: AgentdConfig;
  clock: Clock;
  failpoint: (name: string) => void;
  release: (run: RunKey) => void;
  waitUntilBriefed: (runId: string) => Promise<void>;
  policy: Handlers<typeof policyRoutes>;
  backups: Handlers<typeof backupRoutes>;
  digests: ReturnType<Digests['makeHandlers']>;
  personas: Handlers<typeof personaRoutes>;
  presets: Handlers<typeof presetRoutes>;
  skills: ReturnType<typeof makeSkillHandlers>;
  team: TeamHandlers;
  proposals: ProposalHandlers;
  shared: SharedArtifactHandlers;
  changes: Handlers<typeof changeRoutes>;
  incomingMail: Handlers<typeof mailRoutes>;
  outgoingMail: Handlers<typeof outgoingMailRoutes>;
  erasures: Handlers<typeof erasureRoutes>;
  findApplyRun: Changes['findRun'];
  retention: RetentionHandlers;
  about: { version: string; mode: 'embedded' | 'split'; stateDir: string; startedAt: string };
};

/** Scopes the key by caller and route, because clients choose keys freely. */
function idempotencyKeyFor(context: HandlerContext, route: string): IdempotencyKey | undefined {
  if (context.idempotencyKey === undefined) return undefined;
  return {
    scope: `${context.caller.principal} ${route}`,
    key: context.idempotencyKey,
    requestHash: hashJson([context.params, context.body]),
  };
}

const asRequester = (caller: HandlerContext['caller']): Requester => ({
  principal: caller.principal,
  owner: findKeyOwner(caller),
});

function readRunKey(context: { caller: HandlerContext['caller'] }): RunKey & { caller: RunCaller } {
  const caller = context.caller as RunCaller;
  return { runId: caller.runId, fence: caller.fence, caller };
}

export function makeApi(deps: ApiDeps): Handlers<Routes> {
  return {
    ...deps.calls,
    ...deps.policy,
    ...deps.backups,
    ...deps.digests,
    ...deps.personas,
    ...deps.presets,
    ...deps.skills,
    ...deps.team,
    ...deps.proposals,
    ...deps.shared,
    ...deps.changes,
    ...deps.incomingMail,
    ...deps.outgoingMail,
    ...deps.erasures,
    ...deps.retention,
    ...makeTaskHandlers(deps),
    ...makeBoardHandlers(deps),
    createProgram: ({ body, caller }) => deps.programs.create(body, caller.principal),
    ...makeAgentHandlers(deps),
    ...makeThreadHandlers(deps),
    ...makeRunHandlers(deps),
    ...makeSiteHandlers(deps),
  };
}

/** An empty list for a pruned id would look as if there had never been anything. */
async function assertNotPruned<T>(
  store: AgentdStore,
  { rows }: { rows: readonly T[] },
  filter: Record<string, string | undefined>,
): Promise<void> {
  if (rows.length > 0) return;
  for (const id of Object.values(filter)) {
    const found = id === undefined ? undefined : await store.findTombstone(id);
    if (found !== undefined) throw prunedFault(id!.split('_')[0]!, id!, found);
  }
}

function makeTaskHandlers({ store, service, replays, findApplyRun }: ApiDeps) {
  return {
    createTask: async (c: HandlerContext<Routes['createTask']>) => ({
      task: await service.createTask(
        c.body,
        asRequester(c.caller),
        idempotencyKeyFor(c as unknown as HandlerContext, 'createTask'),
      ),
    }),
    async listTasks({ query }: HandlerContext<Routes['listTasks']>) {
      const { limit, cursor, agent, program, ...filter } = query;
      const options = { limit, cursor, arePrograms: program === 'true' };
      const page = await store.tasks({ ...filter, assigned_to: agent }, options);
      const { parent_task_id, root_task_id } = filter;
      await assertNotPruned(store, page, { parent_task_id, root_task_id });
      return { tasks: page.rows, cursor: page.cursor };
    },
    getTask: async (c: HandlerContext<Routes['getTask']>) => ({
      task: await store.task(c.params.id),
    }),
    getTree: async (c: HandlerContext<Routes['getTree']>) => ({
      tree: await store.tree(c.params.id),
    }),
    async cancelTask(c: HandlerContext<Routes['cancelTask']>) {
      const row = await store.cancelTask(
        c.params.id,
        c.body.reason ?? `canceled by ${c.caller.principal}`,
        c.caller.principal,
      );
      return { task: await store.viewTask(row) };
    },
    retryTask: async (c: HandlerContext<Routes['retryTask']>) => ({
      task: await service.retryTask(
        c.params.id,
        asRequester(c.caller),
        idempotencyKeyFor(c as unknown as HandlerContext, 'retryTask'),
      ),
    }),
    async assignTask(c: HandlerContext<Routes['assignTask']>) {
      return {
        task: await store.viewTask(
          await store.assignTask(c.params.id, c.body.agent, c.caller.principal),
        ),
      };
    },
    replayTask: async (c: HandlerContext<Routes['replayTask']>) => ({
      replay: await replays.replay(c.params.id),
    }),
    async listRuns({ query }: HandlerContext<Routes['listRuns']>) {
      const { limit, cursor, ...filter } = query;
      const page = await store.runs(filter, { limit, cursor });
      await assertNotPruned(store, page, { task_id: filter.task_id });
      return { runs: page.rows, cursor: page.cursor };
    },
    getRun: async ({ params, caller }: HandlerContext<Routes['getRun']>) => ({
      run:
        (caller.kind === 'daemon' ? await findApplyRun(params.id) : undefined) ??
        toRunView(await store.runRow(params.id)),
    }),
  };
}

function makeAgentHandlers({ store, agents }: ApiDeps) {
  const view = async (name: string) => ({ agent: (await store.agent(name)).view });
  const setStatus =
    (status: 'active' | 'paused' | 'stopped') =>
    async (c: HandlerContext<Routes['pauseAgent' | 'resumeAgent' | 'stopAgent']>) => {
      await store.setAgentStatus(c.params.name, status, c.caller.principal);
      return view(c.params.name);
    };
  return {
    listAgents: async () => ({
      agents: (await store.agents()).map((agent) => agent.view),
      problems: await agents.listProblems(),
    }),
    async getAgent(c: HandlerContext<Routes['getAgent']>) {
      const agent = await store.agent(c.params.name);
      return { agent: agent.view, manifest: agent.spec.manifest as Record<string, unknown> };
    },
    async putAgent(c: HandlerContext<Routes['putAgent']>) {
      await agents.putAgent(c.params.name, c.body.manifest_yaml, {
        createOnly: c.body.create_only === true,
        by: c.caller.principal,
      });
      return view(c.params.name);
    },
    async removeAgent(c: HandlerContext<Routes['removeAgent']>) {
      await agents.removeAgent(c.params.name, c.caller.principal);
      return view(c.params.name);
    },
    pauseAgent: setStatus('paused'),
    resumeAgent: setStatus('active'),
    stopAgent: setStatus('stopped'),
  };
}

function makeThreadHandlers(deps: ApiDeps) {
  const { store, artifacts, markSync, config } = deps;
  return {
    async listWaits({ query }: HandlerContext<Routes['listWaits']>) {
      const { limit, cursor, ...filter } = query;
      const page = await store.waits(filter, { limit, cursor });
      await assertNotPruned(store, page, { task_id: filter.task_id });
      return { waits: page.rows, cursor: page.cursor };
    },
    async getWait(c: HandlerContext<Routes['getWait']>) {
      const wait = await store.wait(c.params.id);
      // The answer that ended the wait reaches the run and may have marked its task.
      if (c.caller.kind === 'daemon' && wait.status === 'ended' && wait.run_id !== null)
        await markSync.sync(wait.run_id);
      return { wait };
    },
    answerWait: async (c: HandlerContext<Routes['answerWait']>) => ({
      wait: toWaitView(await store.answerWait(c.params.id, c.body.answer, c.caller.principal)),
    }),
    sendMessage: async (c: HandlerContext<Routes['sendMessage']>) => ({
      message: await sendAsPerson(
        deps,
        c.body,
        c.caller.principal,
        idempotencyKeyFor(c as unknown as HandlerContext, 'sendMessage'),
      ),
    }),
    async listMessages({ query }: HandlerContext<Routes['listMessages']>) {
      const { limit, cursor, to, ...filter } = query;
      const page = await store.messages({ ...filter, to_principal: to }, { limit, cursor });
      await assertNotPruned(store, page, { task_id: filter.task_id });
      return { messages: page.rows, cursor: page.cursor };
    },
    async putArtifact(c: HandlerContext<Routes['putArtifact']>) {
      const row = await artifacts.save(c.body, {
        by: c.caller.principal,
        task: undefined,
        labels: ['person'],
        once: idempotencyKeyFor(c as unknown as HandlerContext, 'putArtifact'),
      });
      return { artifact: toArtifactView(row) };
    },
    getThread: async ({ params }: HandlerContext<Routes['getThread']>) => ({
      thread: { ...(await store.thread(params.id)), turns_max: config.threads.turns_max },
    }),
    async listArtifacts({ query }: HandlerContext<Routes['listArtifacts']>) {
      const { limit, cursor, ...filter } = query;
      const page = await store.artifacts(filter, { limit, cursor });
      await assertNotPruned(store, page, { task_id: filter.task_id });
      return { artifacts: page.rows, cursor: page.cursor };
    },
    async getArtifact({ params, query, caller }: HandlerContext<Routes['getArtifact']>) {
      if (caller.kind !== 'daemon' || query.run_id === undefined) return artifacts.load(params.id);
      return artifacts.loadForTask(
        params.id,
        await store.taskRow((await store.runRow(query.run_id)).task_id),
      );
    },
  };
}

/** Creates a task for a TaskRequest; other types join the thread they name. */
async function sendAsPerson(
  deps: ApiDeps,
  body: SendMessage,
  from: string,
  once: IdempotencyKey | undefined,
) {
  const { store, service } = deps;
  assertMessageAllowed({
    type: body.type,
    from,
    to: body.to,
    inThread: true,
    talkTo: null,
  });
  const text = formatText(body.parts);
  const name = body.to.replace(/^agent:/, '');
  if (body.to.startsWith('agent:')) await store.agent(name);
  let taskId: string | null = body.task_id ?? null;
  let contextId: string | undefined = body.context_id;
  if (body.type === 'TaskRequest') {
    const task = await service.createTask(
      {
        goal: text,
        agent: name,
        ...(contextId === undefined ? {} : { context_id: body.context_id }),
      },
      { principal: from },
      once === undefined ? undefined : { ...once, scope: `${once.scope} task` },
    );
    taskId = task.id;
    contextId = task.context_id;
  } else if (taskId !== null) contextId = (await store.taskRow(taskId)).context_id;
  if (contextId === undefined)
    throw fault('bad_request', 'the message names neither a task nor a thread', {
      hint: 'Give task_id or context_id, or send a TaskRequest.',
    });
  const row = await store.send(
    {
      type: body.type,
      contextId,
      taskId,
      from,
      to: body.to,
      inReplyTo: body.in_reply_to ?? null,
      labels: computeMessageLabels(from, []),
      parts: body.parts,
      text,
      delivered: body.type === 'TaskRequest',
    },
    once,
  );
  return toMessageView(row);
}

function makeRunHandlers(deps: ApiDeps) {
  const { store, markSync, replays, legacyBriefings, config, failpoint, release } = deps;
  return {
    async runBriefing(c: HandlerContext<Routes['runBriefing']>) {
      const { caller, runId } = readRunKey(c);
      if (caller.mode === 'live') await deps.waitUntilBriefed(runId);
      const run = await store.runRow(runId);
      if (caller.mode === 'live' && (run.fence !== caller.fence || run.status !== 'live'))
        throw fault('stale_fence', `activation ${caller.fence} no longer holds ${runId}`);
      const recorded = (await store.briefing(run)) as LegacyBriefing | undefined;
      if (recorded === undefined) throw fault('conflict', `${runId} has no briefing yet`);
      return {
        ...(await legacyBriefings.complete(run, recorded)),
        fence: caller.fence,
        mode: caller.mode,
        beat_ms: config.lease_s * 250,
      };
    },
    async runInbox(c: HandlerContext<Routes['runInbox']>) {
      const { caller, ...key } = readRunKey(c);
      const rows =
        caller.mode === 'replay'
          ? await store.deliveredMessages(key.runId, c.body.step)
          : await store.inbox(key, c.body.step);
      if (caller.mode === 'live') await markSync.sync(key.runId);
      return { messages: rows.map(toMessageView) };
    },
    runBeat: async (c: HandlerContext<Routes['runBeat']>) => {
      const { caller, ...key } = readRunKey(c);
      if (caller.mode === 'replay') return { lease_until: toTimestamp(Date.now() + 60_000) };
      return { lease_until: toTimestamp(await store.renewLease(key, config.lease_s * 1000)) };
    },
    async runPark(c: HandlerContext<Routes['runPark']>) {
      const { caller, ...key } = readRunKey(c);
      if (caller.mode === 'replay')
        throw fault('replay_differs', 'the record ends while the run is waiting', {
          details: { record_ends: true },
        });
      failpoint('agentd.before-park');
      const parked = await store.park(key, c.body.call_ids);
      failpoint('agentd.after-park');
      if (parked) release(key);
      return { parked };
    },
    async runReplayed(c: HandlerContext<Routes['runReplayed']>) {
      return { noted: replays.submitReport(readRunKey(c).runId, c.body) };
    },
  };
}
