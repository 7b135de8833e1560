// Handles what toold requests for a run: delegate, finish, send messages, store artifacts, ask,
// wait. Each happens once per call, and only while the requesting activation holds the run.
import type { Clock } from '../../platform/clock.ts';
import { isFault } from '../../platform/daemon.ts';
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import type { NewId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import type { Client } from '../../platform/link.ts';
import { delegationProblems } from '../../policy/capabilities.ts';
import type { agentdRoutes } from '../../wire/agentd.ts';
import { FAULTS, type FaultCode, fault } from '../../wire/errors.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { Label, TaskId } from '../../wire/primitives.ts';
import { grantFor } from './activations.ts';
import type { Artifacts } from './artifacts.ts';
import type { AgentdConfig } from './config.ts';
import type { MarkSync } from './mark-sync.ts';
import type { MemoryInputs } from './memory/inputs.ts';
import type { ChangeForParent, ForkLayer } from './own-layers.ts';
import { clampToParent, type TaskLimits } from './rules.ts';
import {
  type RunRow,
  type TaskRow,
  toArtifactView,
  toWaitView,
  type WaitRow,
} from './store/rows.ts';
import type { AgentdStore, RunCall } from './store/store.ts';
import type { NewTask } from './store/tasks.ts';
import type { TurnRefusal } from './store/threads.ts';
import { limitFault, makeSendMessage, readThreadLimits } from './threads/send-message.ts';
import { makeThreadCost } from './threads/thread-cost.ts';

type Routes = typeof agentdRoutes;
type CallName =
  | 'toolDelegate'
  | 'toolFinish'
  | 'toolUpdateTask'
  | 'toolChanges'
  | 'toolMessage'
  | 'toolPutArtifact'
  | 'toolGetArtifact'
  | 'toolAsk'
  | 'toolTimer'
  | 'toolAwaitApproval'
  | 'approvalEnded'
  | 'toolBreak'
  | 'toolMark'
  | 'modelFetch'
  | 'runMarks';
export type CallHandlers = Pick<Handlers<Routes>, CallName>;

export type CallDeps = {
  store: AgentdStore;
  config: AgentdConfig;
  clock: Clock;
  newId: NewId;
  artifacts: Artifacts;
  memoryInputs: Pick<MemoryInputs, 'check'>;
  modeld: Client<typeof modeldRoutes>;
  markSync: MarkSync;
  /** Resolves to false if no apply of a person waits under this id. */
  applyApprovalEnded: (runId: string) => Promise<boolean>;
  limitsFor: (task: TaskRow) => Promise<TaskLimits>;
  forkLayer: ForkLayer;
  changeForParent: ChangeForParent;
  /** Ends the process of a run that has ended. */
  release: (run: { runId: string; fence: number }) => void;
  failpoint: (name: string) => void;
};

const RESULT_INLINE_MAX = 32_768;
const APPROVAL_SLACK_MS = 60_000;

type DelegateResult = { task: TaskRow; wait: WaitRow | null } | TurnRefusal;
type RunCallBody = { run_id: string; fence: number; call_id: string };

export function toRunCall(body: RunCallBody, part?: string): RunCall {
  const { fence, ...rest } = body;
  return {
    runId: body.run_id,
    fence,
    callId: body.call_id,
    requestHash: hashJson(rest),
    ...(part === undefined ? {} : { part }),
  };
}

export function makeCalls(deps: CallDeps): CallHandlers {
  const { store, config, clock, newId } = deps;

  const findRunAndTask = async (body: RunCallBody): Promise<{ run: RunRow; task: TaskRow }> => {
    const run = await store.runRow(body.run_id);
    return { run, task: await store.taskRow(run.task_id) };
  };

  const viewDelegation = async (result: DelegateResult) => {
    if ('refused' in result) throw limitFault(result, false);
    const { task, wait } = result;
    return {
      task: await store.viewTask(task),
      wait: wait === null ? null : toWaitView(wait),
    };
  };
  const assertDelegable = async ({ agent }: RunRow, to: string): Promise<void> => {
    const { delegateTo } = (await store.agent(agent)).spec.team;
    if (delegateTo !== null && !delegateTo.includes(to))
      throw fault('denied', `${agent} may not delegate to ${to}`, {
        hint: `Delegate to one of: ${delegateTo.join(', ')}.`,
      });
    if (to === agent)
      throw fault('denied', 'an agent cannot delegate to itself', {
        hint: 'Do it yourself, or delegate to another agent.',
      });
  };

  const sendMessage = makeSendMessage({ ...deps, threadCost: makeThreadCost(deps) });

  return {
    async toolDelegate({ body }: HandlerContext<Routes['toolDelegate']>) {
      const recorded = await store.findRecordedCall<DelegateResult>(toRunCall(body));
      if (recorded !== undefined) return viewDelegation(recorded);
      const { run, task } = await findRunAndTask(body);
      await assertDelegable(run, body.agent);
      if (task.depth + 1 > config.delegation_depth_max)
        throw fault(
          'limit',
          `work may be delegated up to ${config.delegation_depth_max} levels deep`,
        );
      const inputs = body.inputs ?? [];
      const { owner } = await store.taskRow(task.root_task_id);
      const giver = { principal: `agent:${run.agent}`, owner };
      const marks = [
        ...(await deps.artifacts.checkInputs(inputs, task)),
        ...(await deps.memoryInputs.check(inputs, giver, body.agent)),
      ];
      if (body.delegation !== undefined) {
        const { tools } = await grantFor(store, run.agent, task);
        const problems = delegationProblems(tools, body.delegation, clock.nowMs());
        if (problems.length > 0)
          throw fault('denied', problems.join('; '), {
            hint: 'Delegate only tools that this run may call.',
          });
      }
      const id = newId<string>('task');
      const ownsLayer = body.workspace === 'own';
      if (ownsLayer) await deps.forkLayer(task, id);
      const child: NewTask = {
        id,
        ownsLayer,
        parent: task,
        contextId: task.context_id,
        goal: body.goal,
        createdBy: `agent:${run.agent}`,
        agent: body.agent,
        priority: task.priority,
        inputs,
        limits: clampToParent(
          (body.limits ?? {}) as TaskLimits,
          await deps.limitsFor(task),
        ) as Record<string, unknown>,
        delegation: body.delegation,
        after: [],
        deadlineMs: task.deadline_ms === null ? null : Number(task.deadline_ms),
        retryOf: null,
        labels: [...new Set<string>([...(JSON.parse(task.labels) as string[]), ...marks, 'agent'])],
      };
      deps.failpoint('agentd.before-delegate');
      const result = await store.delegate(toRunCall(body), child, body.wait ? {} : undefined, {
        childrenMax: config.children_max,
        limits: readThreadLimits(config),
      });
      deps.failpoint('agentd.after-delegate');
      return viewDelegation(result);
    },

    async toolUpdateTask({ body }) {
      const call = toRunCall(body);
      const recorded = await store.findRecordedCall<TaskRow>(call);
      if (recorded !== undefined) return { task: await store.viewTask(recorded) };
      const { run_id: runId, fence: _, call_id: __, task_id: id, ...change } = body;
      if (change.agent !== undefined)
        await assertDelegable(await store.runRow(runId), change.agent);
      return { task: await store.viewTask(await store.updateSubtask(call, id, change)) };
    },

    async toolChanges({ body }) {
      const { run, task } = await findRunAndTask(body);
      const { runId, callId, requestHash } = toRunCall(body);
      const { action, task_id: childId, paths } = body;
      const by = { principal: `agent:${run.agent}`, key: `${runId} ${callId}`, requestHash };
      const change = { action, childId, ...(paths === undefined ? {} : { paths }) };
      const row = await store.taskRow(childId).catch((error: unknown) => {
        if (isFault(error, 'not_found')) return undefined;
        throw error;
      });
      // Before the effect, and only while this activation holds the run: the names of the files are
      // the subtask's text.
      const labels = row === undefined ? [] : (JSON.parse(row.labels) as Label[]);
      await store.mark(toRunCall(body, 'marks'), labels, `task ${childId}`);
      await deps.markSync.sync(body.run_id);
      const done = await deps.changeForParent(task, change, by);
      return { task_id: childId, ...done };
    },

    async toolFinish({ body }) {
      const recorded = await store.findRecordedCall<TaskRow>(toRunCall(body));
      if (recorded !== undefined) return { task: await store.viewTask(recorded) };
      const { run, task } = await findRunAndTask(body);
      const usage = await deps.modeld.usage({ query: { task_id: task.id as TaskId } });
      const failed = body.status === 'failed';
      const long = Buffer.byteLength(body.result) > RESULT_INLINE_MAX;
      const stored = long
        ? await deps.artifacts.save(
            { name: 'result.txt', mime_type: 'text/plain', text: body.result },
            { by: `agent:${run.agent}`, task, labels: ['agent'], call: toRunCall(body, 'result') },
          )
        : undefined;
      const result = long
        ? `${body.result.slice(0, RESULT_INLINE_MAX / 2)}\n… (the whole result is artifact://${stored!.id})`
        : body.result;
      const artifactId = stored?.id ?? body.artifacts?.[0];
      deps.failpoint('agentd.before-finish');
      const row = await store.finish(toRunCall(body), {
        status: body.status,
        reason: null,
        result,
        resultRef: artifactId === undefined ? null : `artifact://${artifactId}`,
        rehearsal: usage.rows.some((row) => row.provider === 'rehearsal'),
        costMicrousd: usage.total.cost_microusd,
        by: `agent:${run.agent}`,
        error: failed
          ? {
              code: body.error_code ?? 'failed',
              message: body.result.slice(0, 2_000),
              hint: failureHint(body.error_code, body.result, run.task_id),
            }
          : null,
      });
      deps.failpoint('agentd.after-finish');
      deps.release({ runId: body.run_id, fence: body.fence });
      return { task: await store.viewTask(row) };
    },

    toolMessage: ({ body }) => sendMessage(body, toRunCall(body)),

    async toolPutArtifact({ body }) {
      const { run, task } = await findRunAndTask(body);
      const row = await deps.artifacts.save(body.artifact, {
        by: `agent:${run.agent}`,
        task,
        labels: ['agent'],
        call: toRunCall(body),
      });
      return { artifact: toArtifactView(row) };
    },

    async toolGetArtifact({ body }) {
      const { task } = await findRunAndTask(body);
      const content = await deps.artifacts.loadForTask(body.id, task);
      await store.recordArtifactRead(toRunCall(body), content.artifact);
      await deps.markSync.sync(body.run_id);
      return content;
    },

    async toolAsk({ body }) {
      const wait = await store.openWait(toRunCall(body, body.wait_key), {
        kind: 'question',
        by: ['person'],
        question: body.question,
        choices: body.choices ?? [],
        expiresMs: clock.nowMs() + (body.expires_in_s ?? config.question_expires_s) * 1000,
      });
      return { wait: toWaitView(wait) };
    },

    async toolAwaitApproval({ body }) {
      // A key of its own: the approved call itself may be done here too, under the call's key.
      const wait = await store.openWait(toRunCall(body, 'approval'), {
        kind: 'approval',
        by: ['person'],
        from: 'service:approvald',
        question: body.approval_id,
        // A fallback: approvald normally ends the wait before this.
        expiresMs: Date.parse(body.expires_at) + APPROVAL_SLACK_MS,
      });
      return { wait: toWaitView(wait) };
    },

    approvalEnded: async ({ params, body }) => ({
      ended:
        (await deps.applyApprovalEnded(body.run_id)) ||
        (await store.endApprovalWait({ approvalId: params.id, ...body })),
    }),

    async toolTimer({ body }) {
      const wait = await store.openWait(toRunCall(body), {
        kind: 'timer',
        by: ['service:agentd'],
        dueMs: clock.nowMs() + Math.ceil(body.after_s * 1000),
      });
      return { wait: toWaitView(wait) };
    },

    async toolMark({ body }) {
      await store.mark(toRunCall(body, body.part), body.labels, body.why);
      return { labels: await deps.markSync.sync(body.run_id) };
    },

    async modelFetch({ body }) {
      const { run, task } = await findRunAndTask(body);
      const grant = await grantFor(store, run.agent, task);
      const isExpired = grant.expiresAt !== null && Date.parse(grant.expiresAt) <= clock.nowMs();
      const excluded = body.tools.find((tool) => isExpired || !grant.tools.includes(tool));
      if (excluded !== undefined)
        throw fault('denied', `the delegation of ${task.id} does not include ${excluded}`, {
          hint: 'Delegate it by name, or leave the tool out of the request.',
        });
      const what = [...body.tools, ...body.hosts].join(', ');
      const why = `the provider of its model fetches for it: ${what}`.slice(0, 200);
      await store.mark(toRunCall(body), ['outside'], why);
      return { labels: await deps.markSync.sync(body.run_id) };
    },

    runMarks: async ({ params }) => ({ labels: await deps.markSync.sync(params.id) }),

    toolBreak: async ({ body }) => ({
      ended: await store.breakRun({ runId: body.run_id, fence: body.fence }, body.reason),
    }),
  };
}

/** Combines the error table's hint, if there is one, with how to retry. */
function failureHint(code: string | undefined, result: string, taskId: string): string {
  if (code === 'limit' || (code === 'budget' && result.includes(taskId)))
    return 'A retry has the same limits; to raise them: agentctl task create --help';
  const isKnown = code !== undefined && Object.hasOwn(FAULTS, code);
  const first = isKnown ? `${FAULTS[code as FaultCode].hint} ` : '';
  return `${first}To retry: agentctl task retry ${taskId}`;
}
