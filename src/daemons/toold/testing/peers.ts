// Test helper: an agentd and an auditd-ai that serve the real routes from memory, so that toold is
// tested through the same clients and checks as in a runtime. agentd performs each call once per
// run and call id.
import type { RunningDaemon } from '../../../platform/daemon.ts';
import { type Dispatch, type Handlers, makeDispatch } from '../../../platform/dispatch.ts';
import { deriveId } from '../../../platform/ids.ts';
import { hashJson, sha256Hex } from '../../../platform/json.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import {
  type ArtifactView,
  agentdRoutes,
  type TaskView,
  type WaitView,
} from '../../../wire/agentd.ts';
import { auditRoutes } from '../../../wire/auditd-ai.ts';
import type { DaemonName } from '../../../wire/daemons.ts';
import { fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import type { ArtifactId, CallId, Label, RunId, TaskId, WaitId } from '../../../wire/primitives.ts';
import type { RouteTable } from '../../../wire/route.ts';

export const AT = '2026-06-29T18:00:00.000Z';

type ForRun = { run_id: RunId; fence: number; call_id: CallId };
const { toolDelegate, toolFinish, toolMessage, toolPutArtifact, toolGetArtifact } = agentdRoutes;
const { toolShareArtifact, toolListShared } = agentdRoutes;
const { toolTeam, toolReadSkill, toolPreviewProposal, toolAcceptProposal } = agentdRoutes;
const { toolAsk, toolTimer, toolBreak, getWait } = agentdRoutes;
const { toolMark, runMarks, toolAwaitApproval, toolAwaitMail } = agentdRoutes;
const usedRoutes = {
  toolDelegate,
  toolFinish,
  toolMessage,
  toolPutArtifact,
  toolGetArtifact,
  toolTeam,
  toolReadSkill,
  toolShareArtifact,
  toolListShared,
  toolPreviewProposal,
  toolAcceptProposal,
  toolAsk,
  toolTimer,
  toolBreak,
  getWait,
  toolMark,
  runMarks,
  toolAwaitApproval,
  toolAwaitMail,
};

export type FakeAgentd = ReturnType<typeof fakeAgentd>;

export function fakeAgentd() {
  const waits = new Map<string, WaitView>();
  const artifacts = new Map<string, { view: ArtifactView; text: string }>();
  const once = new Map<string, { hash: string; answer: unknown }>();
  const state = {
    waits,
    artifacts,
    /** One line per effect, as `route call_id`. */
    done: [] as string[],
    breaks: [] as string[],
    marks: new Map<string, Set<Label>>(),
    /** A lower fence is refused. */
    fenceMin: 0,
    /** Called before every request; may throw. */
    gate: (_route: string): void => {},
  };

  const marksOf = (runId: string): Set<Label> => {
    const found = state.marks.get(runId) ?? new Set<Label>();
    state.marks.set(runId, found);
    return found;
  };

  const doOnce = <T>(route: string, call: ForRun & { wait_key?: string }, work: () => T): T => {
    state.gate(route);
    if (call.fence < state.fenceMin)
      throw fault('stale_fence', `${call.run_id} has a newer activation`);
    const key = `${call.call_id}/${call.wait_key ?? ''}`;
    const hash = hashJson({ ...call, fence: 0, route });
    if (!once.has(key)) {
      once.set(key, { hash, answer: work() });
      state.done.push(`${route} ${call.call_id}`);
    }
    const known = once.get(key)!;
    if (known.hash !== hash)
      throw fault('idempotency_mismatch', `${key} was used before for a different request`);
    return known.answer as T;
  };

  const openWait = (call: ForRun, key: string, more: Partial<WaitView>): WaitView => {
    const id = deriveId<WaitId>('wait', call.run_id, call.call_id, key);
    const wait: WaitView = {
      id,
      run_id: call.run_id,
      task_id: deriveId<TaskId>('task', call.run_id),
      call_id: call.call_id,
      kind: 'question',
      by: ['person:operator'],
      question: null,
      choices: [],
      child_task_id: null,
      from: null,
      due_at: null,
      expires_at: null,
      status: 'open',
      outcome: null,
      answer: null,
      answered_by: null,
      opened_at: AT,
      ended_at: null,
      ...more,
    };
    waits.set(id, wait);
    return wait;
  };
  /** The wait as it is now, not as it was when it was opened. */
  const now = (wait: WaitView | null) => (wait === null ? null : waits.get(wait.id)!);

  const handlers: Handlers<typeof usedRoutes> = {
    async toolDelegate({ body }) {
      const made = doOnce('delegate', body, () => {
        const id = deriveId<TaskId>('task', body.call_id);
        const child = { kind: 'child' as const, child_task_id: id };
        return { id, wait: body.wait ? openWait(body, 'child', child) : null };
      });
      const task = taskView({ id: made.id, goal: body.goal, assigned_to: body.agent });
      return { task, wait: now(made.wait) };
    },
    async toolFinish({ body }) {
      const { status, result } = body;
      const id = deriveId<TaskId>('task', body.run_id);
      return { task: doOnce('finish', body, () => taskView({ id, status, result })) };
    },
    async toolMessage({ body }) {
      if (body.message.to.startsWith('external:'))
        throw fault('unavailable', 'there is no gateway');
      const wait = doOnce('message', body, () =>
        body.wait_reply ? openWait(body, 'reply', { kind: 'message' }) : null,
      );
      const { parts, type, to, in_reply_to } = body.message;
      const message = {
        id: deriveId<never>('msg', body.call_id),
        type,
        to,
        parts,
        in_reply_to: in_reply_to ?? null,
        from: 'agent:coder',
        context_id: deriveId<never>('ctx', body.run_id),
        task_id: null,
        labels: [],
        pair_seq: 1,
        sent_at: AT,
        delivered_at: null,
      };
      return { message, wait: now(wait) };
    },
    async toolPutArtifact({ body }) {
      const artifact = doOnce('put', body, () => {
        const id = deriveId<ArtifactId>('artifact', body.call_id);
        const text = body.artifact.text ?? body.artifact.base64 ?? '';
        const { name, mime_type = 'text/plain' } = body.artifact;
        const view: ArtifactView = {
          id,
          ref: `artifact://${id}`,
          name,
          mime_type,
          size_bytes: Buffer.byteLength(text),
          object_hash: sha256Hex(text),
          created_by: 'agent:coder',
          task_id: null,
          context_id: null,
          labels: [],
          created_at: AT,
        };
        artifacts.set(id, { view, text });
        return view;
      });
      return { artifact };
    },
    async toolGetArtifact({ body }) {
      state.gate('get');
      const found = artifacts.get(body.id);
      if (found === undefined) throw fault('not_found', `there is no artifact ${body.id}`);
      return { artifact: found.view, text: found.text, base64: null };
    },
    async toolTeam() {
      state.gate('team');
      return { agents: [] };
    },
    toolShareArtifact: async () => ({ shared: true }),
    toolListShared: async () => ({ artifacts: [] }),
    async toolPreviewProposal() {
      state.gate('preview');
      throw fault('bad_request', 'no proposals here');
    },
    async toolAcceptProposal() {
      throw fault('bad_request', 'no proposals here');
    },
    async toolReadSkill({ body }) {
      state.gate('skill');
      throw fault('not_found', `skill ${body.name} not found`);
    },
    async toolAsk({ body }) {
      const { question, choices = [], wait_key } = body;
      const key = `ask ${wait_key ?? ''}`;
      const once = { ...body, wait_key: key };
      return { wait: now(doOnce('ask', once, () => openWait(body, key, { question, choices })))! };
    },
    async toolTimer({ body }) {
      const wait = doOnce('timer', body, () => openWait(body, 'timer', { kind: 'timer' }));
      return { wait: now(wait)! };
    },
    async toolBreak({ body }) {
      state.gate('break');
      state.breaks.push(`${body.run_id} ${body.reason}`);
      return { ended: true };
    },
    async toolMark({ body }) {
      state.gate('mark');
      const now = marksOf(body.run_id);
      for (const label of body.labels) now.add(label);
      return { labels: [...now] };
    },
    async runMarks({ params }) {
      state.gate('marks');
      return { labels: [...marksOf(params.id)] };
    },
    async toolAwaitApproval({ body }) {
      const wait = doOnce('approval', { ...body, wait_key: 'approval' }, () =>
        openWait(body, 'approval', { kind: 'approval' }),
      );
      return { wait: now(wait)! };
    },
    async toolAwaitMail({ body }) {
      const key = body.mail_id;
      const wait = doOnce('mail', { ...body, wait_key: key }, () =>
        openWait(body, key, { kind: 'mail', question: key }),
      );
      return { wait: now(wait)! };
    },
    async getWait({ params }) {
      state.gate('getWait');
      const wait = waits.get(params.id);
      if (wait === undefined) throw fault('not_found', `there is no wait ${params.id}`);
      return { wait };
    },
  };

  return {
    ...state,
    state,
    dispatch: dispatchOf('agentd', usedRoutes, handlers),
    endWait(id: string, end: Partial<WaitView>): void {
      const wait = waits.get(id);
      if (wait === undefined) throw new Error(`there is no wait ${id}`);
      waits.set(id, { ...wait, status: 'ended', outcome: 'answered', ended_at: AT, ...end });
    },
  };
}

export type FakeAudit = ReturnType<typeof fakeAudit>;

export function fakeAudit() {
  const events: NewEvent[] = [];
  const known = new Set<string>();
  const state = { gate: (): void => {} };
  const { append } = auditRoutes;
  const dispatch = dispatchOf(
    'auditd-ai',
    { append },
    {
      async append({ body }) {
        state.gate();
        for (const event of body.events) {
          const key = `${event.source_store} ${event.source_seq}`;
          if (known.has(key)) continue;
          known.add(key);
          events.push(event);
        }
        return { size: events.length, accepted: body.events.length };
      },
    },
  );
  return { events, state, dispatch };
}

export function dispatchOf<T extends RouteTable>(
  name: DaemonName,
  routes: T,
  handlers: Handlers<T>,
): Dispatch {
  return makeDispatch({ routes, handlers, log: silentLog, metrics: makeMetrics(name) });
}

/** Wraps a fake as `hostDaemon` finds it in its own process. */
export function asHosted(name: DaemonName, dispatch: Dispatch): RunningDaemon {
  const nothing = async () => {};
  return { name, dispatch, begin: nothing, drain: nothing, stop: nothing };
}

function taskView(more: Partial<TaskView> & { id: TaskId }): TaskView {
  return {
    parent_task_id: null,
    on_failure: 'stop',
    attempts_max: 1,
    attempt: 1,
    root_task_id: more.id,
    context_id: deriveId<TaskView['context_id']>('ctx', more.id),
    goal: 'a goal',
    created_by: 'person:operator',
    assigned_to: null,
    status: 'ready',
    reason: null,
    priority: 0,
    inputs: [],
    limits: {},
    delegation: null,
    after: [],
    deadline: null,
    retry_of: null,
    workspace: null,
    workspace_mode: null,
    result: null,
    result_ref: null,
    error: null,
    labels: [],
    rehearsal: false,
    created_at: AT,
    updated_at: AT,
    ended_at: null,
    ...more,
  };
}
