// What toold does here on behalf of a run: give work to a colleague, finish, write, store, ask,
// wait. Each happens once per call, and only while the run is held by the activation that asks.
import type { Clock } from '../../platform/clock.ts';
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import type { NewId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import type { Client } from '../../platform/link.ts';
import { delegationProblems, grantOf } from '../../policy/capabilities.ts';
import type { agentdRoutes } from '../../wire/agentd.ts';
import { FAULTS, type FaultCode, fault } from '../../wire/errors.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { Label } from '../../wire/primitives.ts';
import type { Artifacts } from './artifacts.ts';
import type { AgentdConfig } from './config.ts';
import type { MarkSync } from './mark-sync.ts';
import { checkMessage, labelsOfMessage } from './message-rules.ts';
import { clampToParent, type TaskLimits } from './rules.ts';
import {
  artifactView,
  type MessageRow,
  messageView,
  type RunRow,
  type TaskRow,
  type WaitRow,
  waitView,
} from './store/rows.ts';
import type { AgentdStore, RunCall } from './store/store.ts';
import type { NewTask } from './store/tasks.ts';

type Routes = typeof agentdRoutes;
type CallName =
  | 'toolDelegate'
  | 'toolFinish'
  | 'toolMessage'
  | 'toolPutArtifact'
  | 'toolGetArtifact'
  | 'toolAsk'
  | 'toolTimer'
  | 'toolAwaitApproval'
  | 'approvalEnded'
  | 'toolBreak'
  | 'toolMark'
  | 'runMarks';
export type CallHandlers = Pick<Handlers<Routes>, CallName>;

export type CallDeps = {
  store: AgentdStore;
  config: AgentdConfig;
  clock: Clock;
  newId: NewId;
  artifacts: Artifacts;
  modeld: Client<typeof modeldRoutes>;
  toldMarks: MarkSync;
  serviceRunning: (name: string) => boolean;
  limitsOf: (task: TaskRow) => Promise<TaskLimits>;
  /** The run has ended: its process must go. */
  release: (run: { runId: string; fence: number }) => void;
  failpoint: (name: string) => void;
};

const RESULT_INLINE_MAX = 32_768;
const APPROVAL_SLACK_MS = 60_000;

type Made = { task: TaskRow; wait: WaitRow | null };
type Sent = { message: MessageRow; wait: WaitRow | null };
type ForRun = { run_id: string; fence: number; call_id: string };

function runCall(body: ForRun, part?: string): RunCall {
  const { fence, ...rest } = body;
  return {
    runId: body.run_id,
    fence,
    callId: body.call_id,
    requestHash: hashJson(rest),
    ...(part === undefined ? {} : { part }),
  };
}

export function makeCalls(parts: CallDeps): CallHandlers {
  const { store, config, clock, newId } = parts;

  const runAndTask = async (body: ForRun): Promise<{ run: RunRow; task: TaskRow }> => {
    const run = await store.runRow(body.run_id);
    return { run, task: await store.taskRow(run.task_id) };
  };

  const grantOfRun = async (task: TaskRow, agent: string): Promise<string[]> => {
    const [{ spec }, ancestry] = await Promise.all([store.agent(agent), store.ancestry(task.id)]);
    const delegations = ancestry
      .filter((row) => row.delegation !== null)
      .map((row) => JSON.parse(row.delegation!));
    return grantOf({ tools: spec.tools, delegations }).tools;
  };

  const showMade = async (made: Made) => ({
    task: await store.viewOf(made.task),
    wait: made.wait === null ? null : waitView(made.wait),
  });
  const showSent = (sent: Sent) => ({
    message: messageView(sent.message),
    wait: sent.wait === null ? null : waitView(sent.wait),
  });

  return {
    async toolDelegate({ body }: HandlerContext<Routes['toolDelegate']>) {
      const before = await store.recallCall<Made>(runCall(body));
      if (before !== undefined) return showMade(before);
      const { run, task } = await runAndTask(body);
      const { spec } = await store.agent(run.agent);
      if (spec.team.delegateTo !== null && !spec.team.delegateTo.includes(body.agent)) {
        throw fault('denied', `${run.agent} may not give work to ${body.agent}`, {
          hint: `It may ask: ${spec.team.delegateTo.join(', ')}.`,
        });
      }
      if (body.agent === run.agent)
        throw fault('denied', 'an agent cannot delegate to itself', {
          hint: 'Do it yourself, or ask a colleague.',
        });
      if (task.depth + 1 > config.delegation_depth_max)
        throw fault('limit', `work may be passed on at most ${config.delegation_depth_max} times`);
      const marks = await parts.artifacts.checkInputs(body.inputs ?? [], task);
      if (body.delegation !== undefined) {
        const problems = delegationProblems(
          await grantOfRun(task, run.agent),
          body.delegation,
          clock.nowMs(),
        );
        if (problems.length > 0)
          throw fault('denied', problems.join('; '), {
            hint: 'Delegate only what this run itself may do.',
          });
      }
      const child: NewTask = {
        id: newId('task'),
        parent: task,
        contextId: task.context_id,
        goal: body.goal,
        createdBy: `agent:${run.agent}`,
        agent: body.agent,
        priority: task.priority,
        inputs: body.inputs ?? [],
        limits: clampToParent(
          (body.limits ?? {}) as TaskLimits,
          await parts.limitsOf(task),
        ) as Record<string, unknown>,
        delegation: body.delegation,
        after: [],
        deadlineMs: task.deadline_ms === null ? null : Number(task.deadline_ms),
        retryOf: null,
        labels: [...new Set<string>([...(JSON.parse(task.labels) as string[]), ...marks, 'agent'])],
      };
      parts.failpoint('agentd.before-delegate');
      const made = await store.delegate(
        runCall(body),
        child,
        body.wait ? {} : undefined,
        config.children_max,
      );
      parts.failpoint('agentd.after-delegate');
      return showMade(made);
    },

    async toolFinish({ body }) {
      const before = await store.recallCall<TaskRow>(runCall(body));
      if (before !== undefined) return { task: await store.viewOf(before) };
      const { run, task } = await runAndTask(body);
      const rehearsal = await answeredByRehearsal(parts.modeld, task.id);
      const failed = body.status === 'failed';
      const long = Buffer.byteLength(body.result) > RESULT_INLINE_MAX;
      const stored = long
        ? await parts.artifacts.put(
            { name: 'result.txt', mime_type: 'text/plain', text: body.result },
            { by: `agent:${run.agent}`, task, labels: ['agent'], call: runCall(body, 'result') },
          )
        : undefined;
      const result = long
        ? `${body.result.slice(0, RESULT_INLINE_MAX / 2)}\n… (the whole result is artifact://${stored!.id})`
        : body.result;
      parts.failpoint('agentd.before-finish');
      const row = await store.finish(runCall(body), {
        status: body.status,
        reason: null,
        result,
        resultRef:
          stored === undefined
            ? body.artifacts?.[0] === undefined
              ? null
              : `artifact://${body.artifacts[0]}`
            : `artifact://${stored.id}`,
        rehearsal,
        by: `agent:${run.agent}`,
        error: failed
          ? {
              code: body.error_code ?? 'failed',
              message: body.result.slice(0, 2_000),
              hint: hintAfter(body.error_code, body.result, run.task_id),
            }
          : null,
      });
      parts.failpoint('agentd.after-finish');
      parts.release({ runId: body.run_id, fence: body.fence });
      return { task: await store.viewOf(row) };
    },

    async toolMessage({ body }) {
      const before = await store.recallCall<Sent>(runCall(body));
      if (before !== undefined) return showSent(before);
      const { run, task } = await runAndTask(body);
      const { spec } = await store.agent(run.agent);
      const from = `agent:${run.agent}`;
      const to = body.message.to;
      const inThread =
        to.startsWith('agent:') &&
        (await store.tasks({ context_id: task.context_id, assigned_to: to.slice(6) }, { limit: 1 }))
          .rows.length > 0;
      const verdict = checkMessage({
        type: body.message.type,
        from,
        to,
        inThread,
        talkTo: spec.team.talkTo,
        serviceRunning: parts.serviceRunning,
      });
      if (!verdict.allow) throw fault(verdict.code, verdict.message, { hint: verdict.hint });
      if (to.startsWith('agent:')) await store.agent(to.slice(6));
      const text = body.message.parts
        .map((part) => (part.kind === 'text' ? part.text : `[${part.kind}]`))
        .join('\n');
      const sent = await store.sendFromRun(
        runCall(body),
        {
          type: body.message.type,
          contextId: task.context_id,
          taskId: task.id,
          from,
          to,
          inReplyTo: body.message.in_reply_to ?? null,
          labels: labelsOfMessage(from, JSON.parse(task.labels) as Label[]),
          parts: body.message.parts,
          text,
          delivered: false,
        },
        body.wait_reply
          ? { expiresMs: clock.nowMs() + (body.expires_in_s ?? 3_600) * 1000 }
          : undefined,
      );
      return showSent(sent);
    },

    async toolPutArtifact({ body }) {
      const { run, task } = await runAndTask(body);
      const row = await parts.artifacts.put(body.artifact, {
        by: `agent:${run.agent}`,
        task,
        labels: ['agent'],
        call: runCall(body),
      });
      return { artifact: artifactView(row) };
    },

    async toolGetArtifact({ body }) {
      const { task } = await runAndTask(body);
      const content = await parts.artifacts.getForTask(body.id, task);
      await store.noteRead(runCall(body), content.artifact);
      await parts.toldMarks.sync(body.run_id);
      return content;
    },

    async toolAsk({ body }) {
      const wait = await store.openWait(runCall(body, body.wait_key), {
        kind: 'question',
        by: ['person'],
        question: body.question,
        choices: body.choices ?? [],
        expiresMs: clock.nowMs() + (body.expires_in_s ?? config.question_expires_s) * 1000,
      });
      return { wait: waitView(wait) };
    },

    async toolAwaitApproval({ body }) {
      const wait = await store.openWait(runCall(body), {
        kind: 'approval',
        by: ['person'],
        from: 'service:approvald',
        question: body.approval_id,
        // approvald ends it in time; this is for when it cannot.
        expiresMs: Date.parse(body.expires_at) + APPROVAL_SLACK_MS,
      });
      return { wait: waitView(wait) };
    },

    approvalEnded: async ({ params, body }) => ({
      ended: await store.endApprovalWait({ approvalId: params.id, ...body }),
    }),

    async toolTimer({ body }) {
      const wait = await store.openWait(runCall(body), {
        kind: 'timer',
        by: ['service:agentd'],
        dueMs: clock.nowMs() + Math.ceil(body.after_s * 1000),
      });
      return { wait: waitView(wait) };
    },

    async toolMark({ body }) {
      await store.mark(runCall(body, body.part), body.labels, body.why);
      return { labels: await parts.toldMarks.sync(body.run_id) };
    },

    runMarks: async ({ params }) => ({ labels: await parts.toldMarks.sync(params.id) }),

    toolBreak: async ({ body }) => ({
      ended: await store.breakRun({ runId: body.run_id, fence: body.fence }, body.reason),
    }),
  };
}

/** Every result says whether a real model or the rehearsal gave the answers. */
async function answeredByRehearsal(
  modeld: Client<typeof modeldRoutes>,
  taskId: string,
): Promise<boolean> {
  const { rows } = await modeld.usage({ query: { task_id: taskId } });
  return rows.some((row) => row.provider === 'rehearsal');
}

/** What to do about the reason, where the table has it, and how to have it done after that. */
function hintAfter(code: string | undefined, said: string, taskId: string): string {
  if (code === 'limit' || (code === 'budget' && said.includes(taskId)))
    return 'A retry has the same limits. With higher ones: agentctl task create --help';
  const isKnown = code !== undefined && Object.hasOwn(FAULTS, code);
  const first = isKnown ? `${FAULTS[code as FaultCode].hint} ` : '';
  return `${first}To have it tried again: agentctl task retry ${taskId}`;
}
